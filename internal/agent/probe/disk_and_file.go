package probe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// diskUsage holds the size, free space and inodes of a file system, sizes in bytes
type diskUsage struct{ total, avail, used, inodes, inodesFree float64 }

var errFileSystemHangs = errors.New("the file system does not answer")

// statfs returns the size, free space and inodes of a file system. A dead NFS server blocks the system call for ever:
// statfs then returns when ctx ends, and fails at once while an earlier call is blocked.
func (e *Env) statfs(ctx context.Context, path string) (diskUsage, error) {
	if !e.Memory.markCallStarted(path) {
		return diskUsage{}, errFileSystemHangs
	}
	var u diskUsage
	var err error
	done := make(chan struct{})
	go func() {
		u, err = statfs(path)
		e.Memory.markCallEnded(path)
		close(done)
	}()
	select {
	case <-done:
		return u, err
	case <-ctx.Done():
		return diskUsage{}, errFileSystemHangs
	}
}

// runDisk reports the free space of the file systems that the probe's argument `path` lists. Without that argument it
// reports all local file systems.
func runDisk(ctx context.Context, env *Env, a argValues, r *report) error {
	paths := a.list("path")
	if len(paths) == 0 {
		var err error
		if paths, err = env.localMounts(); err != nil {
			return unsupportedError(err)
		}
	}
	looked := 0
	for _, path := range paths {
		if matchesAny(a.list("exclude"), path) {
			continue
		}
		looked++
		u, err := env.statfs(ctx, path)
		if err != nil {
			r.addFinding(model.Unknown, "%s: %v", path, err)
			continue
		}
		addFileSystem(env, a, r, path, u)
	}
	if looked == 0 {
		return errors.New("no file system matches")
	}
	return nil
}

// addFileSystem adds one file system to the report, with a status by its free space and inodes. The predicted days until
// it is full also count.
func addFileSystem(env *Env, a argValues, r *report, path string, u diskUsage) {
	space := a.freeThresholdsOf("warn", "crit")
	status := space.status(u.avail, u.total)
	text := path + " " + bytesText(u.avail) + " free"
	if u.total > 0 {
		text += " of " + bytesText(u.total) + " (" + strconv.FormatFloat(u.avail/u.total*100, 'f', 1, 64) + "%)"
	}
	if u.inodes > 0 {
		inodes := a.freeThresholdsOf("inodesWarn", "inodesCrit").status(u.inodesFree, u.inodes)
		if inodes != model.OK {
			text += ", " + strconv.FormatFloat(u.inodesFree/u.inodes*100, 'f', 1, 64) + "% of the inodes free"
		}
		status = worseStatus(status, inodes)
	}
	days, known := env.Memory.daysUntilUsedUp(path, env.now(), u.avail)
	if known && days < 365 {
		status = worseStatus(status, a.thresholdsOf("daysWarn", "daysCrit", rangeAtLeast).status(days))
		text += ", full in " + strconv.FormatFloat(days, 'f', 1, 64) + " days at this rate"
	}
	r.addFinding(status, "%s", text)
	r.addPerformanceData(path, u.used, "B", space.usedThresholds(u.total), 0, u.total)
	if known {
		r.addPerformanceData(path+" days", float64(int64(min(days, 1e6)*10))/10, "d", thresholds{}, 0, noBound())
	}
}

// excludedByDefault reports whether the disk probe skips a type of file system, such as tmpfs or NFS.
func excludedByDefault(fstype string) bool {
	switch fstype {
	case "proc", "sysfs", "devtmpfs", "devpts", "tmpfs", "ramfs", "cgroup", "cgroup2", "securityfs", "debugfs",
		"tracefs", "pstore", "bpf", "configfs", "mqueue", "hugetlbfs", "autofs", "binfmt_misc", "rpc_pipefs", "nsfs",
		"efivarfs", "selinuxfs", "squashfs", "iso9660", "erofs", "udf",
		"nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "9p", "virtiofs", "afs":
		return true
	}
	return strings.HasPrefix(fstype, "fuse")
}

// localMounts returns the mount points of local file systems, read from proc_pid_mountinfo(5). Of several mounts of
// one device it takes the shortest path.
func (e *Env) localMounts() ([]string, error) {
	data, err := e.read("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	byDevice := map[string]string{}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		dash := slices.Index(f, "-")
		if dash < 6 || dash+1 >= len(f) {
			continue
		}
		device, root, path, options, fstype := f[2], f[3], unescapeMount(f[4]), f[5], f[dash+1]
		if excludedByDefault(fstype) || readOnly(options) && root != "/" || readOnly(f[len(f)-1]) {
			continue // a whole file system that is read-only only here (as a service has /home) fills up all the same
		}
		if fstype == "overlay" && path != "/" {
			continue // a container's; it fills with the disk below it
		}
		if old, ok := byDevice[device]; !ok || len(path) < len(old) {
			byDevice[device] = path
		}
	}
	return slices.Sorted(maps.Values(byDevice)), nil
}

// readOnly reports whether mount options contain ro (read-only).
func readOnly(options string) bool { return slices.Contains(strings.Split(options, ","), "ro") }

// unescapeMount decodes the octal escapes in a path of mountinfo, such as \040 for a blank.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\043`, "#", `\134`, `\`).Replace(s)
}

// runFile reports existence, age and size of the files that match a pattern.
func runFile(_ context.Context, env *Env, a argValues, r *report) error {
	pattern := a.text("path")
	paths, err := filepath.Glob(env.pathBelowRoot(pattern))
	if err != nil {
		return fmt.Errorf("invalid pattern %q in the argument path: %v", pattern, err)
	}
	if _, err := os.Lstat(env.pathBelowRoot(pattern)); err == nil && len(paths) == 0 {
		paths = []string{env.pathBelowRoot(pattern)} // a name that looks like a pattern
	}
	switch exists := a.bool("exists"); {
	case !exists && len(paths) > 0:
		r.addFinding(model.Critical, "%s exists", paths[0])
		return nil
	case len(paths) == 0:
		r.addFinding(statusOfExceeded(exists, false), "%s does not exist", pattern)
		return nil
	}
	var newest os.FileInfo
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			r.addFinding(model.Unknown, "%v", err)
			continue
		}
		if newest == nil || info.ModTime().After(newest.ModTime()) {
			newest = info
		}
		if least, ok := a.size("minSize"); ok && info.Size() < least {
			r.addFinding(model.Critical, "%s has %s, less than %s", path, bytesText(float64(info.Size())), model.Size(least))
		}
		if most, ok := a.size("maxSize"); ok && info.Size() > most {
			r.addFinding(model.Critical, "%s has %s, more than %s", path, bytesText(float64(info.Size())), model.Size(most))
		}
	}
	if newest == nil {
		return nil
	}
	age := env.now().Sub(newest.ModTime())
	most := a.thresholdsOf("warnAge", "critAge", rangeAtMost)
	r.addFinding(most.status(max(age, 0).Seconds()), "%s is %s old and has %s", newest.Name(), ageText(max(age, 0)), bytesText(float64(newest.Size())))
	r.addPerformanceData("age", age.Truncate(time.Second).Seconds(), "s", most, noBound(), noBound())
	r.addPerformanceData("size", float64(newest.Size()), "B", thresholds{}, 0, noBound())
	return nil
}
