/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: what differs between QEMU 10.0 and later, in this file alone.
 */
#ifndef WEFT_COMPAT_H
#define WEFT_COMPAT_H

#if __has_include("hw/core/boards.h")
#include "hw/core/boards.h"
#else
#include "hw/boards.h"
#endif

#if __has_include("hw/core/qdev-properties.h")
#include "hw/core/qdev-properties.h"
#else
#include "hw/qdev-properties.h"
#endif

#if __has_include("system/memory.h")
#include "system/memory.h"
#else
#include "exec/memory.h"
#endif

/* 10.1 made the data of class_init and the interface lists const. */
#if QEMU_VERSION_MAJOR > 10 || \
    (QEMU_VERSION_MAJOR == 10 && QEMU_VERSION_MINOR >= 1)
#define WEFT_CLASS_DATA const void
#define WEFT_INTERFACES const InterfaceInfo
#else
#define WEFT_CLASS_DATA void
#define WEFT_INTERFACES InterfaceInfo
#endif

#endif /* WEFT_COMPAT_H */
