// SPDX-License-Identifier: GPL-2.0
#include <linux/anon_inodes.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/io.h>
#include <linux/vmalloc.h>
#include "shim.h"

/* What each is for is said where they are called: rust/sys/area.rs. */

void weft_wmb(void)
{
	/* Also drains write-combining buffers. */
	wmb();
}

void weft_rmb(void)
{
	/* Between the word that says that data are there, and the data. */
	dma_rmb();
}

void weft_mb(void)
{
	/* Between "I sleep" and the last look. */
	mb();
}

void __iomem *weft_ioremap_cache(phys_addr_t addr, size_t bytes)
{
	return ioremap_cache(addr, bytes);
}

/* The page frame behind an address of coherent DMA memory, however it was made. */
unsigned long weft_coherent_pfn(void *cpu_addr)
{
	if (is_vmalloc_addr(cpu_addr))
		return vmalloc_to_pfn(cpu_addr);
	return page_to_pfn(virt_to_page(cpu_addr));
}

void weft_vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vm_flags_set(vma, flags);
}

bool weft_vma_shared(const struct vm_area_struct *vma)
{
	return vma->vm_flags & VM_MAYSHARE;
}

pgprot_t weft_pgprot_noncached(pgprot_t prot)
{
	return pgprot_noncached(prot);
}

unsigned long weft_page_pfn(struct page *page)
{
	return page_to_pfn(page);
}

void *weft_page_address(struct page *page)
{
	return page_address(page);
}

/*
 * An inode of its own whose address_space collects every mapping of one port,
 * whatever path it was opened through. The file is dropped at once: it must not
 * outlive this module, to which its f_op belong.
 */
struct inode *weft_mapping_inode(void)
{
	static const struct file_operations none;
	struct file *file;
	struct inode *inode;

	file = anon_inode_create_getfile("[weft]", &none, NULL, O_RDWR, NULL);
	if (IS_ERR(file))
		return ERR_CAST(file);
	inode = file_inode(file);
	ihold(inode);
	__fput_sync(file);
	return inode;
}
