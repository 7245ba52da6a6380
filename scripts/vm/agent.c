// SPDX-License-Identifier: GPL-2.0
/*
 * The first process of a guest's root: runs what the host asks for.
 *
 * Frames on the virtio-serial port "weft.agent", each a line and, where the
 * line says so, that many bytes after it:
 *
 *	host -> guest			guest -> host
 *	run ID BYTES\n<command>		hello PROTOCOL UPTIME_MS\n
 *	kill ID SIGNAL\n		out ID BYTES\n<output>
 *	off\n				err ID BYTES\n<output>
 *					end ID STATUS\n	(128 + n: signal n)
 *
 * Each command is a process group of its own under /bin/sh; any number of them
 * run at a time. One that is killed ends with the last process of its group, as
 * what it has open is in use until then. Output is passed on as it comes: the
 * pipes of a job are read only while the port takes data, so that a slow host
 * stops the command and not this process.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROTOCOL	1
#define MAX_JOBS	64
#define MAX_COMMAND	65536
#define CHUNK		16384

struct job {
	unsigned int id;
	pid_t pid;		/* 0: slot is free */
	int status;		/* of the shell, for "end"; -1: it runs */
	int killed;		/* by a signal that ends all of its group */
	int out, err;		/* -1: closed */
};

static struct job jobs[MAX_JOBS];
static int port = -1;

static void say(const char *format, ...)
{
	char line[256];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	if (n > 0 && write(STDERR_FILENO, line, n) < 0)
		return;
}

/* The port's number is not fixed; its name is. Without udev it is only in sysfs. */
static int open_port(void)
{
	char path[512], name[64];
	struct dirent *entry;
	DIR *dir;
	FILE *file;
	int fd = -1;

	dir = opendir("/sys/class/virtio-ports");
	if (!dir)
		return -1;
	while (fd < 0 && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/sys/class/virtio-ports/%s/name", entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fgets(name, sizeof(name), file) && !strncmp(name, "weft.agent", 10)) {
			snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
			fd = open(path, O_RDWR | O_CLOEXEC);
		}
		fclose(file);
	}
	closedir(dir);
	return fd;
}

static void send_all(const void *data, size_t len)
{
	const char *at = data;
	ssize_t n;

	while (len) {
		n = write(port, at, len);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			say("agent: port: %s\n", strerror(errno));
			return;
		}
		at += n;
		len -= n;
	}
}

static void send_line(const char *format, ...)
{
	char line[128];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	send_all(line, n);
}

static int recv_all(void *data, size_t len)
{
	char *at = data;
	ssize_t n;

	while (len) {
		n = read(port, at, len);
		if (n <= 0) {
			if (n < 0 && errno == EINTR)
				continue;
			return -1;
		}
		at += n;
		len -= n;
	}
	return 0;
}

static int recv_line(char *line, size_t size)
{
	size_t n = 0;

	while (n + 1 < size) {
		if (recv_all(line + n, 1))
			return -1;
		if (line[n] == '\n')
			break;
		n++;
	}
	line[n] = 0;
	return 0;
}

static struct job *find_job(unsigned int id)
{
	int i;

	for (i = 0; i < MAX_JOBS; i++)
		if (jobs[i].pid && jobs[i].id == id)
			return &jobs[i];
	return NULL;
}

static struct job *free_job(void)
{
	int i;

	for (i = 0; i < MAX_JOBS; i++)
		if (!jobs[i].pid)
			return &jobs[i];
	return NULL;
}

static void run(unsigned int id, char *command)
{
	struct job *job = free_job();
	int out[2] = { -1, -1 }, err[2] = { -1, -1 };
	sigset_t none;
	pid_t pid;

	if (!job || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		goto fail;
	pid = fork();
	if (pid < 0)
		goto fail;
	if (!pid) {
		setsid();
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		close(STDIN_FILENO);
		open("/dev/null", O_RDONLY);
		dup2(out[1], STDOUT_FILENO);
		dup2(err[1], STDERR_FILENO);
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	close(out[1]);
	close(err[1]);
	*job = (struct job) { .id = id, .pid = pid, .status = -1, .out = out[0], .err = err[0] };
	return;
fail:
	say("agent: job %u: %s\n", id, job ? strerror(errno) : "too many jobs");
	close(out[0]);
	close(out[1]);
	close(err[0]);
	close(err[1]);
	send_line("end %u 126\n", id);
}

static void take_request(void)
{
	static char command[MAX_COMMAND + 1];
	unsigned int id, len;
	char line[128];
	struct job *job;
	int sig;

	if (recv_line(line, sizeof(line))) {
		/* No process at the other end: a poll that returns at once, do not spin. */
		usleep(100000);
		return;
	}
	if (sscanf(line, "run %u %u", &id, &len) == 2 && len <= MAX_COMMAND) {
		if (recv_all(command, len))
			return;
		command[len] = 0;
		run(id, command);
	} else if (sscanf(line, "kill %u %d", &id, &sig) == 2) {
		job = find_job(id);
		if (job) {
			job->killed |= sig == SIGKILL || sig == SIGTERM;
			kill(-job->pid, sig);
		}
	} else if (!strcmp(line, "off")) {
		sync();
		reboot(RB_POWER_OFF);
	} else {
		say("agent: bad request: %s\n", line);
	}
}

static void forward(struct job *job, int *fd, const char *what)
{
	static char data[CHUNK];
	ssize_t n = read(*fd, data, sizeof(data));

	if (n > 0) {
		send_line("%s %u %zd\n", what, job->id, n);
		send_all(data, n);
	} else if (!n || errno != EINTR) {
		close(*fd);
		*fd = -1;
	}
}

/* Output of what a shell has left behind is not waited for. */
static void drain(struct job *job, int *fd, const char *what)
{
	struct pollfd ready = { .fd = *fd, .events = POLLIN };

	while (*fd >= 0 && poll(&ready, 1, 0) > 0)
		forward(job, fd, what);
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/*
 * Processes of a group that is killed end one after the other, the shell often
 * first. This is the first process: the others become its children then.
 */
static int is_ending(const struct job *job)
{
	return job->killed && !kill(-job->pid, 0);
}

static void reap(void)
{
	int status, i;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (i = 0; i < MAX_JOBS; i++)
			if (jobs[i].pid == pid && jobs[i].status < 0)
				jobs[i].status = WIFEXITED(status) ? WEXITSTATUS(status) :
								     128 + WTERMSIG(status);
	for (i = 0; i < MAX_JOBS; i++) {
		if (!jobs[i].pid || jobs[i].status < 0 || is_ending(&jobs[i]))
			continue;
		drain(&jobs[i], &jobs[i].out, "out");
		drain(&jobs[i], &jobs[i].err, "err");
		send_line("end %u %d\n", jobs[i].id, jobs[i].status);
		jobs[i].pid = 0;
	}
}

int main(void)
{
	struct pollfd fds[2 + 2 * MAX_JOBS];
	struct signalfd_siginfo info;
	struct timespec up;
	sigset_t mask;
	int sigfd, i;

	setenv("PATH", "/mnt/tools:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	setenv("HOME", "/root", 1);
	setenv("LC_ALL", "C.UTF-8", 1);
	setenv("TERM", "linux", 0);
	if (chdir("/root"))
		say("agent: /root: %s\n", strerror(errno));

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	signal(SIGPIPE, SIG_IGN);
	sigfd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);

	while ((port = open_port()) < 0)
		usleep(20000);
	clock_gettime(CLOCK_BOOTTIME, &up);
	send_line("hello %d %lld\n", PROTOCOL, up.tv_sec * 1000LL + up.tv_nsec / 1000000);

	for (;;) {
		fds[0] = (struct pollfd) { .fd = port, .events = POLLIN };
		fds[1] = (struct pollfd) { .fd = sigfd, .events = POLLIN };
		for (i = 0; i < MAX_JOBS; i++) {
			fds[2 + 2 * i] = (struct pollfd) { .fd = jobs[i].pid ? jobs[i].out : -1,
							   .events = POLLIN };
			fds[3 + 2 * i] = (struct pollfd) { .fd = jobs[i].pid ? jobs[i].err : -1,
							   .events = POLLIN };
		}
		if (poll(fds, 2 + 2 * MAX_JOBS, -1) < 0 && errno != EINTR)
			say("agent: poll: %s\n", strerror(errno));
		for (i = 0; i < MAX_JOBS; i++) {
			if (jobs[i].pid && fds[2 + 2 * i].revents)
				forward(&jobs[i], &jobs[i].out, "out");
			if (jobs[i].pid && fds[3 + 2 * i].revents)
				forward(&jobs[i], &jobs[i].err, "err");
		}
		if (fds[1].revents) {
			while (read(sigfd, &info, sizeof(info)) == sizeof(info))
				;
			reap();
		}
		if (fds[0].revents)
			take_request();
	}
}
