// The search trees of elfutils, for its static archives on Debian 13: libdw.a and libelf.a of
// version 0.192 call these functions, and no archive of the package has them. Debian 12's do
// without.
//
// elfutils guards each tree with a lock in it. The process that unwinds has one thread, so that
// these leave the lock alone; nobody else reads it.
#include <search.h>

// Begins as elfutils' own does; what follows is the lock.
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
