// Macros that the headers of other libraries define, as a program that includes those first has them.
#pragma once

// X11
#define Bool     int
#define None     0L
#define Status   int
#define True     1
#define False    0
#define Success  0
#define Always   2
#define Above    0
#define Below    1
#define Complex  0
#define Unsorted 0

// Windows
#define near
#define far
#define small     char
#define interface struct
#define IN
#define OUT
#define OPTIONAL
#define ERROR  0
#define DELETE 1
#define STRICT 1

// Qt
#define slots
#define signals public
#define emit
#define foreach(a, b) for (a : b)

// <complex.h>
#define I (__extension__ 1.0iF)
