#include "tests/unit/worker/support/rank_server.h"

int main(int argc, char** argv) { return ddp::test::RankServer::RunTests(argc, argv); }
