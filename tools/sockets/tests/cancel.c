// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Threads that are cancelled while they sleep in accept(): of a socket that the library may
 * have made one over two, and of one that is TCP alone. Exits with 0 if both end so.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int cleaned;

static void clean(void *unused)
{
	cleaned++;
}

static void *sleeps(void *fd)
{
	pthread_cleanup_push(clean, NULL);
	accept(*(int *)fd, NULL, NULL);
	pthread_cleanup_pop(0);
	return NULL;
}

static int cancelled(in_addr_t at)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(at) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	pthread_t thread;
	void *result;

	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 1) ||
	    pthread_create(&thread, NULL, sleeps, &fd))
		return 0;
	/* Whether it sleeps already makes no difference to what has to come out. */
	usleep(100000);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	close(fd);
	return result == PTHREAD_CANCELED;
}

int main(void)
{
	return !(cancelled(INADDR_ANY) && cancelled(INADDR_LOOPBACK) && cleaned == 2);
}
