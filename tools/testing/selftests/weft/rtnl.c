// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "rtnl.h"

struct request {
	struct nlmsghdr header;
	struct ifinfomsg link;
	char attributes[256];
};

static void begin(struct request *r, unsigned int type, unsigned int flags)
{
	memset(r, 0, sizeof(*r));
	r->header.nlmsg_len = offsetof(struct request, attributes);
	r->header.nlmsg_type = type;
	r->header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
}

/* There is room for those that are given here. */
static struct rtattr *put(struct request *r, unsigned int type, const char *text)
{
	struct rtattr *a = (struct rtattr *)((char *)r + NLMSG_ALIGN(r->header.nlmsg_len));
	size_t bytes = text ? strlen(text) + 1 : 0;

	a->rta_type = type;
	a->rta_len = RTA_LENGTH(bytes);
	if (text)
		memcpy(RTA_DATA(a), text, bytes);
	r->header.nlmsg_len = NLMSG_ALIGN(r->header.nlmsg_len) + RTA_ALIGN(a->rta_len);
	return a;
}

static long ask(struct request *r)
{
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
		char rest[1024];
	} answer;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	long result = -errno;

	if (fd < 0)
		return result;
	if (send(fd, r, r->header.nlmsg_len, 0) < 0 || recv(fd, &answer, sizeof(answer), 0) < 0)
		result = -errno;
	else if (answer.header.nlmsg_type == NLMSG_ERROR)
		result = answer.error.error;
	else
		result = -EPROTO;
	close(fd);
	return result;
}

long rtnl_add(const char *name, const char *port)
{
	struct rtattr *info;
	struct request r;

	begin(&r, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
	put(&r, IFLA_IFNAME, name);
	put(&r, IFLA_PARENT_DEV_NAME, port);
	info = put(&r, IFLA_LINKINFO, NULL);
	put(&r, IFLA_INFO_KIND, "weft");
	info->rta_len = (char *)&r + r.header.nlmsg_len - (char *)info;
	return ask(&r);
}

long rtnl_raise(const char *name)
{
	struct request r;

	begin(&r, RTM_NEWLINK, 0);
	r.link.ifi_flags = IFF_UP;
	r.link.ifi_change = IFF_UP;
	put(&r, IFLA_IFNAME, name);
	return ask(&r);
}

long rtnl_remove(const char *name)
{
	struct request r;

	begin(&r, RTM_DELLINK, 0);
	put(&r, IFLA_IFNAME, name);
	return ask(&r);
}
