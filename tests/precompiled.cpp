// The source whose precompiled headers all test programs use. It has nothing else.
