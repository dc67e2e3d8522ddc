// Links the other sources of this folder, each of which includes the whole library.
int first();
int second();

int main() { return first() + 1 == second() ? 0 : 1; }
