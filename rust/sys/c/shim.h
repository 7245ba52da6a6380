/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What Rust cannot call by itself: static inlines and macros of the kernel.
 */
#ifndef WEFT_SHIM_H
#define WEFT_SHIM_H

#include <linux/fs.h>
#include <linux/mm.h>

void weft_wmb(void);
void weft_rmb(void);
void weft_mb(void);
void __iomem *weft_ioremap_cache(phys_addr_t addr, size_t bytes);
unsigned long weft_coherent_pfn(void *cpu_addr);
void weft_vm_flags_set(struct vm_area_struct *vma, unsigned long flags);
bool weft_vma_shared(const struct vm_area_struct *vma);
pgprot_t weft_pgprot_noncached(pgprot_t prot);
unsigned long weft_page_pfn(struct page *page);
void *weft_page_address(struct page *page);
struct inode *weft_mapping_inode(void);

#endif /* WEFT_SHIM_H */
