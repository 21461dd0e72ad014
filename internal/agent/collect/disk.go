package collect

import (
	"context"
	"errors"
	"time"

	"github.com/muster-fleet/muster/internal/item"
)

// diskUsage is the space of a file system in bytes, and its inodes.
type diskUsage struct{ total, free, used, inodes, inodesFree float64 }

// diskAnswer is the answer of a file system.
type diskAnswer struct {
	diskUsage
	err error
}

// diskTimeout bounds the wait for a file system: a dead file server blocks the system call for ever.
const diskTimeout = 3 * time.Second

// statfs asks a file system for its size. While an earlier question is unanswered it asks no other.
func (m *machine) statfs(ctx context.Context, path string) (diskUsage, error) {
	asked := m.hangs[path]
	if asked == nil {
		asked = make(chan diskAnswer, 1)
		m.hangs[path] = asked
		go func() {
			u, err := statfs(path)
			asked <- diskAnswer{u, err}
		}()
	}
	ctx, cancel := context.WithTimeout(ctx, diskTimeout)
	defer cancel()
	select {
	case a := <-asked:
		delete(m.hangs, path)
		return a.diskUsage, a.err
	case <-ctx.Done():
		return diskUsage{}, errors.New("the file system " + path + " does not answer")
	}
}

// fileSystemSize collects vfs.fs.size[PATH,MODE].
func fileSystemSize(ctx context.Context, m *machine, k *Key) (item.Value, error) {
	u, err := m.statfs(ctx, k.Parameter(0, "/"))
	if err != nil {
		return item.Value{}, err
	}
	return sizeOf(k, u.total, u.free, u.used)
}

// fileSystemInodes collects vfs.fs.inode[PATH,MODE].
func fileSystemInodes(ctx context.Context, m *machine, k *Key) (item.Value, error) {
	u, err := m.statfs(ctx, k.Parameter(0, "/"))
	if err != nil {
		return item.Value{}, err
	}
	return sizeOf(k, u.inodes, u.inodesFree, u.inodes-u.inodesFree)
}

// sizeOf returns the amount that the second parameter of a key names.
func sizeOf(k *Key, total, free, used float64) (item.Value, error) {
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
	return item.Value{}, unknownMode(k, 1, "total", "free", "used", "pfree", "pused")
}
