#include "rendezvous/http/page/log_views.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/http/page/answers.h"

namespace ddprun::http {

void LogViews::Begin(const std::string& owner, SessionEnd until, LogRequest request,
                     const std::shared_ptr<Responder>& responder) {
  std::shared_ptr<LogView> view;
  {
    const std::lock_guard lock(mutex_);
    open_.remove_if([](const Open& one) {
      const auto still = one.view.lock();
      return still == nullptr || still->is_over();
    });
    std::size_t of_owner = 0;
    for (const Open& one : open_) of_owner += one.owner == owner ? 1 : 0;
    if (of_owner < kMostOfOwner) {
      view = LogView::Make(&service_, responder.get());
      open_.push_back({owner, until, view});
    }
  }
  if (view == nullptr) {
    const std::string why = absl::StrCat("you have ", kMostOfOwner,
                                         " logs open, and no more are possible: close one of them");
    if (service_.full) service_.full(why);
    return responder->Send(ErrorAnswer(503, why));
  }
  view->Read(owner, std::move(request));
}

void LogViews::EndOverdue(TimePoint now) {
  std::vector<std::shared_ptr<LogView>> over;
  std::vector<std::shared_ptr<LogView>> slow;
  {
    const std::lock_guard lock(mutex_);
    for (auto one = open_.begin(); one != open_.end();) {
      const auto view = one->view.lock();
      if (view == nullptr || view->is_over()) {
        one = open_.erase(one);
        continue;
      }
      if (one->until.IsOver(now)) over.push_back(view);
      if (view->IsTooSlow(now)) slow.push_back(view);
      ++one;
    }
  }
  for (const auto& view : over) {
    view->End("you are signed out: `ddprun page` prints a link that signs in");
  }
  for (const auto& view : slow) view->Cut();
}

}  // namespace ddprun::http
