#pragma once
#if defined(_WIN32)
#include "platform_windows.ipp"
#else
#include "platform_posix.ipp"
#endif
