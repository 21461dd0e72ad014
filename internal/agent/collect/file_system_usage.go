package collect

import (
	"context"
	"errors"
	"fmt"

	"github.com/muster-fleet/muster/internal/item"
)

// diskUsage holds the size, free space and inodes of a file system, sizes in bytes
type diskUsage struct{ total, free, used, inodes, inodesFree float64 }

// fileSystemSize collects the item vfs.fs.size[PATH,MODE], a file system's size or use in bytes or percent.
func fileSystemSize(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	path := k.Parameter(0, "")
	if path == "" {
		return item.Value{}, errNoPath(k)
	}
	u, err := statfs(path)
	if err != nil {
		return item.Value{}, err
	}
	return selectAmount(k, u.total, u.free, u.used)
}

// fileSystemInodes collects the item vfs.fs.inode[PATH,MODE], a file system's number of inodes or their percentage.
func fileSystemInodes(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	path := k.Parameter(0, "")
	if path == "" {
		return item.Value{}, errNoPath(k)
	}
	u, err := statfs(path)
	if err != nil {
		return item.Value{}, err
	}
	return selectAmount(k, u.inodes, u.inodesFree, u.inodes-u.inodesFree)
}

// errNoPath returns the error for an item key without a path as its first parameter
func errNoPath(k *Key) error {
	return fmt.Errorf("%s: the path is missing; write for example %s[/]", k.Name, k.Name)
}

// selectAmount returns a file system's total, free or used amount, as the item key's second parameter selects.
// The amounts are total, free and used, and the percentages of free and used.
func selectAmount(k *Key, total, free, used float64) (item.Value, error) {
	share := func(part float64) (item.Value, error) {
		if used+free == 0 {
			return item.Value{}, errors.New("the file system has no size")
		}
		return item.FromFloat(part / (used + free) * 100), nil
	}
	switch k.Parameter(1, "total") {
	case "total":
		return item.FromUnsigned(uint64(total)), nil
	case "free":
		return item.FromUnsigned(uint64(free)), nil
	case "used":
		return item.FromUnsigned(uint64(used)), nil
	case "pfree":
		return share(free)
	case "pused":
		return share(used)
	}
	return item.Value{}, errUnknownMode(k, 1, "total", "free", "used", "pfree", "pused")
}

// amounts has a file system's total, free and used bytes (or inodes) with their percentages. Its JSON fields are those
// of the item vfs.fs.get.
type amounts struct {
	Total uint64  `json:"total"`
	Free  uint64  `json:"free"`
	Used  uint64  `json:"used"`
	PFree percent `json:"pfree"`
	PUsed percent `json:"pused"`
}

// percent is a percentage that JSON shows with six decimals, as Zabbix does
type percent float64

// MarshalJSON formats the percentage with six decimals
func (p percent) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%.6f", float64(p)), nil }

// newAmounts returns a file system's total, free and used amounts, with the percentages of free and used. none is the
// free share of a file system without a size.
func newAmounts(total, free, used, none float64) amounts {
	a := amounts{uint64(total), uint64(free), uint64(used), percent(none), 0}
	if free+used > 0 {
		a.PFree, a.PUsed = percent(free/(free+used)*100), percent(used/(free+used)*100)
	}
	return a
}
