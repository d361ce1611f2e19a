// The search trees of elfutils, for its static archives on Debian 13. libdw.a and libelf.a of
// version 0.192 call these functions, but no archive of the package contains them. Debian 12's
// archives do not need them.
//
// elfutils guards each tree with a lock inside it. The unwinding process has one thread, so these
// functions do not use the lock.
#include <search.h>

// Same beginning as elfutils' own struct, whose lock follows.
struct EuSearchTree {
  void* root;
};
using EuCompare = int (*)(const void*, const void*);

extern "C" {

void eu_search_tree_init(EuSearchTree* tree) { tree->root = nullptr; }

void eu_tdestroy(EuSearchTree* tree, void (*free_node)(void*)) {
  tdestroy(tree->root, free_node);
  tree->root = nullptr;
}

void eu_search_tree_fini(EuSearchTree* tree, void (*free_node)(void*)) {
  eu_tdestroy(tree, free_node);
}

void* eu_tsearch(const void* key, EuSearchTree* tree, EuCompare compare) {
  return tsearch(key, &tree->root, compare);
}

void* eu_tfind(const void* key, EuSearchTree* tree, EuCompare compare) {
  return tfind(key, &tree->root, compare);
}

void* eu_tdelete(const void* key, EuSearchTree* tree, EuCompare compare) {
  return tdelete(key, &tree->root, compare);
}

}  // extern "C"
