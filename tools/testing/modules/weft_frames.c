// SPDX-License-Identifier: GPL-2.0
/*
 * A neighbour that sends anything to the Ethernet interface of a peer: messages of all lengths
 * and tags, frames with headers that may be anything, and such that are nearly right. For
 * tests; insmod returns when all was sent.
 */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/etherdevice.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/tcp.h>
#include <linux/virtio_net.h>
#include <linux/vmalloc.h>
#include <linux/weft_client.h>

/* include/uapi/linux/weft.h, rust/net/connect.rs */
#define SERVICE		0xffff0000U
#define CELLS		256
#define BULK		(256 << 10)
#define FRAME		1
#define HEADER		16
#define LONGEST		(70 << 10)
#define TIMEOUT_MS	5000

static ulong peer;
module_param(peer, ulong, 0444);

static uint count = 2000;
module_param(count, uint, 0444);

static ulong seed = 1;
module_param(seed, ulong, 0444);

static int result = -ENODEV;
static struct rnd_state state;
static u8 *frame;

static u32 below(u32 most)
{
	return prandom_u32_state(&state) % most;
}

static void address(u8 *to, u64 hwid)
{
	u64 low = hwid & ((1ULL << 46) - 1);
	int i;

	for (i = 5; i >= 0; i--, low >>= 8)
		to[i] = low;
	to[0] = to[0] << 2 | 2;
}

/* Returns the length of a frame, with its header, of which some fields are as they should be. */
static size_t make(u64 own)
{
	size_t length = below(4) ? below(2000) : below(LONGEST);
	struct virtio_net_hdr *header = (void *)frame;
	struct ethhdr *ethernet = (void *)frame + HEADER;
	struct iphdr *ip = (void *)(ethernet + 1);
	static const u8 kinds[] = {
		VIRTIO_NET_HDR_GSO_NONE, VIRTIO_NET_HDR_GSO_TCPV4, VIRTIO_NET_HDR_GSO_UDP,
		VIRTIO_NET_HDR_GSO_TCPV6, VIRTIO_NET_HDR_GSO_UDP_L4, VIRTIO_NET_HDR_GSO_ECN,
	};

	prandom_bytes_state(&state, frame, min_t(size_t, length, 256));
	if (!below(8) || length < HEADER + ETH_HLEN)
		return length;
	address(ethernet->h_source, own);
	address(ethernet->h_dest, peer);
	if (!below(4))
		eth_broadcast_addr(ethernet->h_dest);
	ethernet->h_proto = htons(below(2) ? ETH_P_IP : ETH_P_IPV6);
	if (below(2)) {
		header->flags = below(4);
		header->gso_type = kinds[below(ARRAY_SIZE(kinds))] | (below(8) ? 0 : 0x80);
		header->gso_size = cpu_to_le16(below(2) ? 1448 : below(65536));
		header->hdr_len = cpu_to_le16(below(2) ? 54 : below(65536));
		header->csum_start = cpu_to_le16(below(2) ? 34 : below(65536));
		header->csum_offset = cpu_to_le16(below(2) ? 16 : below(65536));
	}
	if (below(2) && length >= HEADER + ETH_HLEN + sizeof(*ip)) {
		ip->version = 4;
		ip->ihl = below(4) ? 5 : below(16);
		ip->protocol = below(2) ? IPPROTO_TCP : IPPROTO_UDP;
		ip->tot_len = htons(below(2) ? length - HEADER - ETH_HLEN : below(65536));
		ip->frag_off = below(2) ? 0 : ip->frag_off;
		ip->check = 0;
		ip->check = ip_fast_csum(ip, max_t(u32, ip->ihl, 5));
	}
	return length;
}

static int send_all(struct weft_channel *channel, u64 own)
{
	unsigned long until = jiffies + 60 * HZ;
	uint sent = 0;

	while (sent < count) {
		struct kvec piece = { .iov_base = frame, .iov_len = make(own) };
		u64 tag = below(16) ? FRAME : below(4);
		int err;

		do {
			err = weft_channel_send(channel, &piece, 1, tag, 0);
			if (err == -EAGAIN) {
				if (time_after(jiffies, until))
					return -ETIMEDOUT;
				usleep_range(100, 200);
			}
		} while (err == -EAGAIN);
		if (err)
			return err;
		sent++;
	}
	/* Until all was read: what is closed may be lost. */
	while (weft_channel_room(channel) != CELLS) {
		if (time_after(jiffies, until))
			return -ETIMEDOUT;
		usleep_range(100, 200);
	}
	return 0;
}

static void ignore(void *context, unsigned int events)
{
}

static void add(struct weft_client *client, struct weft_port *port)
{
	struct weft_destination to = {
		.peer = peer,
		.link = WEFT_CLIENT_ANY_LINK,
		.service = SERVICE,
		.cells = CELLS,
		.bulk = BULK,
		.timeout_ms = TIMEOUT_MS,
	};
	struct weft_notifier notifier = { .notify = ignore };
	struct weft_channel *channel;
	struct weft_port_attr attr;

	if (result != -ENODEV)
		return;
	weft_query_port(port, &attr);
	channel = weft_connect(port, &to, &notifier);
	if (IS_ERR(channel)) {
		result = PTR_ERR(channel);
		return;
	}
	result = send_all(channel, attr.hwid);
	weft_channel_close(channel);
}

static void remove(struct weft_client *client, struct weft_port *port)
{
}

static struct weft_client client = { .name = "weft_frames", .add = add, .remove = remove };

static int __init weft_frames_init(void)
{
	frame = vzalloc(LONGEST);
	if (!frame)
		return -ENOMEM;
	prandom_seed_state(&state, seed);
	weft_register_client(&client);
	weft_unregister_client(&client);
	vfree(frame);
	return result;
}

static void __exit weft_frames_exit(void)
{
}

module_init(weft_frames_init);
module_exit(weft_frames_exit);
MODULE_DESCRIPTION("Anything, sent to the Ethernet interface of a peer: a test");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS("WEFT");
