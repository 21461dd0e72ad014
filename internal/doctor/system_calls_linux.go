package doctor

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// fileLimits returns how many files the process may open, as soft and hard limit.
func fileLimits() (soft, hard uint64) {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0, 0
	}
	return limit.Cur, limit.Max
}

var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
	0x2fc12fc1: "zfs", unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay",
	unix.NFS_SUPER_MAGIC: "nfs", unix.SMB2_SUPER_MAGIC: "cifs", unix.FUSE_SUPER_MAGIC: "fuse",
}

// diskFree returns the free bytes of a disk, and the type of its file system.
func diskFree(path string) (free int64, kind string, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, "", err
	}
	kind, ok := fileSystems[int64(st.Type)]
	if !ok {
		kind = "type 0x" + strconv.FormatInt(int64(st.Type), 16)
	}
	return int64(st.Bavail) * int64(st.Bsize), kind, nil
}

// syncData syncs the data of a file to the disk by fdatasync.
func syncData(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// clockSynchronised reports whether the kernel considers the machine's clock synchronised, for example by NTP.
func clockSynchronised() (synced, known bool) {
	var tx unix.Timex
	state, err := unix.Adjtimex(&tx)
	return state != unix.TIME_ERROR, err == nil
}

// deviceOf returns the id of the disk on which a file lies. The result known is false if the file cannot be read.
func deviceOf(path string) (device uint64, known bool) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return uint64(st.Dev), err == nil // the type differs by platform
}
