#include "../unit/ops/attention.cpp"
