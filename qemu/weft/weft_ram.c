/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weft port: memory of a host, as another process hands it over.
 *
 * Only descriptors sealed against shrinking are taken: a mapping beyond the
 * end of a file that was truncated is a SIGBUS for all of QEMU.
 */
#include "qemu/osdep.h"
#include "qemu/memfd.h"
#include "qapi/error.h"
#include "weft_aperture.h"
#include "weft_port.h"

/*
 * Map all of @fd, of at least @least bytes, and do not take it over.
 * @size: NULL, or where to put its size.
 */
void *weft_map_sealed(int fd, uint64_t least, uint64_t *size, Error **errp)
{
    struct stat st;
    int seals;
    void *ptr;

    if (fstat(fd, &st) < 0) {
        error_setg_errno(errp, errno, "memory descriptor");
        return NULL;
    }
    if (st.st_size < 0 || (uint64_t)st.st_size < least) {
        error_setg(errp, "memory descriptor of %" PRId64 " bytes, %" PRIu64
                   " needed", (int64_t)st.st_size, least);
        return NULL;
    }
    seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK)) {
        error_setg(errp, "memory descriptor is not a memfd sealed against "
                   "shrinking");
        return NULL;
    }
    ptr = mmap(NULL, size ? (uint64_t)st.st_size : least,
               PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (ptr == MAP_FAILED) {
        error_setg_errno(errp, errno, "mapping a memory descriptor");
        return NULL;
    }
    if (size) {
        *size = st.st_size;
    }
    return ptr;
}

/* Takes @fd over, also when it fails. */
bool weft_ram_open(WeftRam *ram, int fd, Error **errp)
{
    ram->ptr = weft_map_sealed(fd, WEFT_PAGE, &ram->size, errp);
    if (!ram->ptr) {
        close(fd);
        ram->fd = -1;
        return false;
    }
    ram->fd = fd;
    return true;
}

void weft_ram_close(WeftRam *ram)
{
    if (ram->fd >= 0) {
        munmap(ram->ptr, ram->size);
        close(ram->fd);
    }
    ram->fd = -1;
    ram->ptr = NULL;
    ram->size = 0;
}
