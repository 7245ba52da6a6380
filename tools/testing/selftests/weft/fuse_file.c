// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/fuse.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "fuse_file.h"
#include "weft_test.h"

/* As long as a request may be; the kernel insists on some more than what is written. */
#define REQUEST		(FUSE_MIN_READ_BUFFER + FF_PAGE)
#define DEVICE		"/dev/fuse"
/* The kernel needs to ask but once. */
#define VALID_S		3600

const char *ff_lacks(void)
{
	if (!access(DEVICE, F_OK))
		return NULL;
	if (system("modprobe -q fuse 2>/dev/null") || access(DEVICE, F_OK))
		return "this kernel has no FUSE (CONFIG_FUSE_FS)";
	return NULL;
}

uint8_t ff_byte(uint64_t at)
{
	return at * 7 + (at >> 12) + 1;
}

/* What is answered to a request that is gone meanwhile is refused: that is no error. */
static void answer(struct ff_file *f, uint64_t unique, int error, const void *data, size_t bytes)
{
	struct fuse_out_header head = {
		.len = sizeof(head) + bytes, .error = -error, .unique = unique,
	};
	struct iovec parts[] = { { &head, sizeof(head) }, { (void *)data, bytes } };

	if (writev(f->dev, parts, bytes ? 2 : 1) < 0 && errno != ENOENT && errno != ENODEV)
		printf("# %s: %s\n", DEVICE, strerror(errno));
}

static void answer_page(struct ff_file *f, uint64_t unique, unsigned int page)
{
	uint8_t data[FF_PAGE];

	for (unsigned int n = 0; n < FF_PAGE; n++)
		data[n] = ff_byte(page * FF_PAGE + n);
	answer(f, unique, 0, data, sizeof(data));
}

/* The kernel was told not to read ahead: it asks for one page at a time. */
static void read_page(struct ff_file *f, uint64_t unique, const struct fuse_read_in *in)
{
	unsigned int page = in->offset / FF_PAGE;

	if (page >= FF_PAGES || in->size != FF_PAGE) {
		answer(f, unique, EINVAL, NULL, 0);
		return;
	}
	pthread_mutex_lock(&f->lock);
	switch (f->answers[page]) {
	case FF_DATA:
		answer_page(f, unique, page);
		break;
	case FF_ERROR:
		answer(f, unique, EIO, NULL, 0);
		break;
	case FF_LATE:
		f->held[page] = unique;
		break;
	}
	pthread_mutex_unlock(&f->lock);
}

/* The task that waits has got a signal. As any server that can be killed does, it gives up. */
static void interrupt(struct ff_file *f, const struct fuse_interrupt_in *in)
{
	pthread_mutex_lock(&f->lock);
	for (unsigned int page = 0; page < FF_PAGES; page++) {
		if (f->held[page] != in->unique)
			continue;
		f->held[page] = 0;
		answer(f, in->unique, EINTR, NULL, 0);
	}
	pthread_mutex_unlock(&f->lock);
}

static void serve(struct ff_file *f, const struct fuse_in_header *in)
{
	const void *arg = in + 1;
	struct fuse_init_out init = {
		.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION,
		.max_write = FF_PAGE, .time_gran = 1,
	};
	struct fuse_attr_out attr = {
		.attr_valid = VALID_S,
		.attr = {
			.ino = FUSE_ROOT_ID, .size = FF_PAGES * FF_PAGE, .mode = S_IFREG | 0600,
			.nlink = 1, .blksize = FF_PAGE,
		},
	};
	struct fuse_open_out open = { .open_flags = FOPEN_KEEP_CACHE };

	switch (in->opcode) {
	case FUSE_INIT:
		answer(f, in->unique, 0, &init, sizeof(init));
		break;
	case FUSE_GETATTR:
		answer(f, in->unique, 0, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
		answer(f, in->unique, 0, &open, sizeof(open));
		break;
	case FUSE_READ:
		read_page(f, in->unique, arg);
		break;
	case FUSE_INTERRUPT:
		interrupt(f, arg);
		break;
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_DESTROY:
		answer(f, in->unique, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
		break;
	default:
		answer(f, in->unique, EOPNOTSUPP, NULL, 0);
	}
}

static void *work(void *arg)
{
	union {
		struct fuse_in_header in;
		uint8_t bytes[REQUEST];
	} request;
	struct ff_file *f = arg;
	struct pollfd wait[] = {
		{ .fd = f->dev, .events = POLLIN }, { .fd = f->stop, .events = POLLIN },
	};

	for (;;) {
		ssize_t bytes;

		if (poll(wait, 2, -1) < 0 && errno != EINTR)
			break;
		if (wait[1].revents || wait[0].revents & POLLERR)
			break;
		bytes = read(f->dev, &request, sizeof(request));
		if (bytes >= (ssize_t)sizeof(request.in))
			serve(f, &request.in);
		/* ENOENT: it was interrupted before it was read. ENODEV: it is unmounted. */
		else if (errno == ENODEV)
			break;
	}
	return NULL;
}

/* A file that is the file system's root, on a file of /tmp. */
static bool mount_it(struct ff_file *f)
{
	char options[80];
	int place = mkstemp(f->path);

	if (place < 0)
		return false;
	close(place);
	snprintf(options, sizeof(options), "fd=%d,rootmode=%o,user_id=0,group_id=0,allow_other",
		 f->dev, S_IFREG);
	if (!mount("weft-test", f->path, "fuse", MS_NOSUID | MS_NODEV, options))
		return true;
	unlink(f->path);
	return false;
}

bool ff_begin(struct ff_file *f)
{
	memset(f, 0, sizeof(*f));
	strcpy(f->path, "/tmp/weft-fuse-XXXXXX");
	pthread_mutex_init(&f->lock, NULL);
	f->dev = open(DEVICE, O_RDWR | O_CLOEXEC);
	f->stop = eventfd(0, EFD_CLOEXEC);
	if (f->dev < 0 || f->stop < 0 || !mount_it(f))
		return false;
	return !pthread_create(&f->thread, NULL, work, f);
}

void ff_end(struct ff_file *f)
{
	const uint64_t one = 1;

	umount2(f->path, MNT_DETACH);
	if (write(f->stop, &one, sizeof(one)) == sizeof(one))
		pthread_join(f->thread, NULL);
	/* Whatever still waits gets an error. */
	close(f->dev);
	close(f->stop);
	unlink(f->path);
}

int ff_open(struct ff_file *f)
{
	int fd = open(f->path, O_RDWR | O_CLOEXEC);
	struct stat known;

	/* The kernel asks how long it is for this, and not for mmap(). */
	if (fd >= 0 && fstat(fd, &known)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

uint8_t *ff_map(struct ff_file *f)
{
	int fd = ff_open(f);
	void *at;

	if (fd < 0)
		return NULL;
	at = mmap(NULL, FF_PAGES * FF_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	return at == MAP_FAILED ? NULL : at;
}

void ff_set(struct ff_file *f, unsigned int page, enum ff_answer answer)
{
	pthread_mutex_lock(&f->lock);
	f->answers[page] = answer;
	pthread_mutex_unlock(&f->lock);
}

bool ff_wait(struct ff_file *f, unsigned int page, int timeout_ms)
{
	int64_t until = wt_now_ms() + timeout_ms;
	uint64_t held;

	do {
		pthread_mutex_lock(&f->lock);
		held = f->held[page];
		pthread_mutex_unlock(&f->lock);
		if (held)
			return true;
		usleep(1000);
	} while (wt_now_ms() < until);
	return false;
}

void ff_release(struct ff_file *f, unsigned int page)
{
	pthread_mutex_lock(&f->lock);
	f->answers[page] = FF_DATA;
	if (f->held[page])
		answer_page(f, f->held[page], page);
	f->held[page] = 0;
	pthread_mutex_unlock(&f->lock);
}

pid_t ff_fork(struct ff_file *f)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* With the parent's descriptor the last one closes, and all that waits ends. */
	close(f->dev);
	return 0;
}
