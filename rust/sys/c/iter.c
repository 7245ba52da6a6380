// SPDX-License-Identifier: GPL-2.0
/*
 * Copies between an iterator and words that a peer accesses: each byte once, and each word in
 * one piece. Page faults are not handled: the rest of a copy is left then.
 */
#include <linux/iov_iter.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>
#include "shim.h"

/* Words to store to, in ascending order. */
struct weft_stores {
	u64 *to;
	/* The one that is not full, with so many bytes, as little endian. */
	u64 word;
	unsigned int held;
};

static __always_inline void weft_store_byte(struct weft_stores *stores, u8 byte)
{
	stores->word |= (u64)byte << (8 * stores->held);
	if (++stores->held == sizeof(u64)) {
		WRITE_ONCE(*stores->to, (__force u64)cpu_to_le64(stores->word));
		stores->to++;
		stores->word = 0;
		stores->held = 0;
	}
}

static __always_inline size_t weft_store_user(void __user *base, size_t progress, size_t len,
					      void *priv, void *priv2)
{
	struct weft_stores *stores = priv;
	const u8 __user *from = base;
	size_t left = len;
	u64 word;
	u8 byte;

	if (!user_access_begin(from, len))
		return len;
	while (left) {
		if (stores->held || left < sizeof(word)) {
			unsafe_get_user(byte, from, fault);
			weft_store_byte(stores, byte);
			from++;
			left--;
			continue;
		}
		unsafe_get_user(word, (const u64 __user *)from, fault);
		WRITE_ONCE(*stores->to, word);
		stores->to++;
		from += sizeof(word);
		left -= sizeof(word);
	}
fault:
	user_access_end();
	return left;
}

static __always_inline size_t weft_store_kernel(void *base, size_t progress, size_t len,
						void *priv, void *priv2)
{
	struct weft_stores *stores = priv;
	const u8 *from = base;
	size_t left = len;

	while (left) {
		if (stores->held || left < sizeof(u64)) {
			weft_store_byte(stores, *from++);
			left--;
			continue;
		}
		WRITE_ONCE(*stores->to, get_unaligned((const u64 *)from));
		stores->to++;
		from += sizeof(u64);
		left -= sizeof(u64);
	}
	return 0;
}

/*
 * Stores the next @count bytes of @from behind the @held ones that *@word has, from @to on, and
 * the word that is not full at last. Returns how many it has stored.
 */
size_t weft_iter_store(void *to, unsigned int held, u64 *word, size_t count,
		       struct iov_iter *from)
{
	struct weft_stores stores = { .to = to, .word = held ? *word : 0, .held = held };
	size_t done;

	pagefault_disable();
	done = iterate_and_advance(from, count, &stores, weft_store_user, weft_store_kernel);
	pagefault_enable();
	if (stores.held)
		WRITE_ONCE(*stores.to, (__force u64)cpu_to_le64(stores.word));
	*word = stores.word;
	return done;
}

/* Returns the bytes of the word at @at from there on, as little endian, and how many there are. */
static __always_inline u64 weft_load(const u8 *at, unsigned int *bytes)
{
	unsigned int skipped = (unsigned long)at % sizeof(u64);

	*bytes = sizeof(u64) - skipped;
	return le64_to_cpu((__force __le64)READ_ONCE(*(const u64 *)(at - skipped))) >>
	       (8 * skipped);
}

static __always_inline size_t weft_load_user(void __user *base, size_t progress, size_t len,
					     void *priv, void *priv2)
{
	const u8 *from = (const u8 *)priv + progress;
	u8 __user *to = base;
	size_t left = len;
	unsigned int bytes, n;

	if (!user_access_begin(to, len))
		return len;
	while (left) {
		u64 word = weft_load(from, &bytes);

		if (bytes == sizeof(word) && left >= bytes) {
			unsafe_put_user((__force u64)cpu_to_le64(word), (u64 __user *)to, fault);
		} else {
			bytes = bytes < left ? bytes : left;
			for (n = 0; n < bytes; n++, word >>= 8)
				unsafe_put_user((u8)word, to + n, fault);
		}
		from += bytes;
		to += bytes;
		left -= bytes;
	}
fault:
	user_access_end();
	return left;
}

static __always_inline size_t weft_load_kernel(void *base, size_t progress, size_t len,
					       void *priv, void *priv2)
{
	const u8 *from = (const u8 *)priv + progress;
	u8 *to = base;
	size_t left = len;
	unsigned int bytes, n;

	while (left) {
		u64 word = weft_load(from, &bytes);

		if (bytes == sizeof(word) && left >= bytes) {
			put_unaligned((__force u64)cpu_to_le64(word), (u64 *)to);
		} else {
			bytes = bytes < left ? bytes : left;
			for (n = 0; n < bytes; n++, word >>= 8)
				to[n] = (u8)word;
		}
		from += bytes;
		to += bytes;
		left -= bytes;
	}
	return 0;
}

/* Copies the next @count bytes from @from, which is inside of words, and returns how many. */
size_t weft_iter_load(const void *from, size_t count, struct iov_iter *to)
{
	size_t done;

	pagefault_disable();
	done = iterate_and_advance(to, count, (void *)from, weft_load_user, weft_load_kernel);
	pagefault_enable();
	return done;
}
