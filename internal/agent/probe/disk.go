package probe

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

func diskProbe() Probe {
	return Probe{
		Name: "disk", Summary: "Free space and inodes of mounted file systems, and the days until they are full.",
		Args: []Arg{
			{Name: "path", Type: List, Help: "mount points; default: every local file system that can be written"},
			{Name: "exclude", Type: List, Help: "mount points to exclude, as glob patterns"},
			{Name: "warn", Type: Free, Default: "10%", Help: "warning when less is free for ordinary users"},
			{Name: "crit", Type: Free, Default: "5%", Help: "critical when less is free"},
			{Name: "inodesWarn", Type: Free, Default: "10%", Unit: "inodes", Help: "warning when fewer inodes are free"},
			{Name: "inodesCrit", Type: Free, Default: "5%", Unit: "inodes", Help: "critical when fewer inodes are free"},
			{Name: "daysWarn", Type: Number, Unit: "days", Help: "warning when the disk fills up in fewer days, at the rate of the last day (available one hour after the agent's start)"},
			{Name: "daysCrit", Type: Number, Unit: "days", Help: "critical when the disk fills up in fewer days"},
		},
		run: runDisk,
	}
}

type usage struct{ total, avail, used, inodes, inodesFree float64 }

var errHangs = errors.New("the file system does not answer")

// statfs asks a file system that may hang (a dead NFS server) without hanging with it.
func (e *Env) statfs(ctx context.Context, path string) (usage, error) {
	if !e.Memory.startCall(path) {
		return usage{}, errHangs
	}
	type answer struct {
		u   usage
		err error
	}
	ch := make(chan answer, 1)
	go func() {
		u, err := statfs(path)
		e.Memory.endCall(path)
		ch <- answer{u, err}
	}()
	select {
	case a := <-ch:
		return a.u, a.err
	case <-ctx.Done():
		return usage{}, errHangs
	}
}

func runDisk(ctx context.Context, env *Env, a args, r *report) {
	paths := a.list("path")
	if len(paths) == 0 {
		var err error
		if paths, err = env.localMounts(); err != nil {
			addUnsupported(r, err)
			return
		}
	}
	looked := 0
	for _, path := range paths {
		if slices.ContainsFunc(a.list("exclude"), func(p string) bool { ok, _ := filepath.Match(p, path); return ok }) {
			continue
		}
		looked++
		u, err := env.statfs(ctx, path)
		if err != nil {
			r.add(model.Unknown, "%s: %v", path, err)
			continue
		}
		judgeDisk(env, a, r, path, u)
	}
	if looked == 0 {
		r.add(model.Unknown, "no file system matches")
	}
}

func judgeDisk(env *Env, a args, r *report, path string, u usage) {
	space := a.free("warn", "crit")
	status := space.status(u.avail, u.total)
	text := path + " " + bytesText(u.avail) + " free"
	if u.total > 0 {
		text += " of " + bytesText(u.total) + " (" + strconv.FormatFloat(u.avail/u.total*100, 'f', 1, 64) + "%)"
	}
	if u.inodes > 0 {
		inodes := a.free("inodesWarn", "inodesCrit").status(u.inodesFree, u.inodes)
		if inodes != model.OK {
			text += ", " + strconv.FormatFloat(u.inodesFree/u.inodes*100, 'f', 1, 64) + "% of the inodes free"
		}
		status = worse(status, inodes)
	}
	days, known := env.Memory.daysUntilNone(path, env.now(), u.avail)
	if known && days < 365 {
		status = worse(status, a.levels("daysWarn", "daysCrit", atLeast).status(days))
		text += ", full in " + strconv.FormatFloat(days, 'f', 1, 64) + " days at this rate"
	}
	r.add(status, "%s", text)
	r.measure(path, u.used, "B", space.usedLevels(u.total), 0, u.total)
	if known {
		r.measure(path+" days", float64(int64(min(days, 1e6)*10))/10, "d", levels{}, 0, nan())
	}
}

// passedOver: virtual file systems hold nothing that fills up; remote ones may hang,
// and are watched where they live, unless path names them.
func passedOver(fstype string) bool {
	switch fstype {
	case "proc", "sysfs", "devtmpfs", "devpts", "tmpfs", "ramfs", "cgroup", "cgroup2", "securityfs", "debugfs",
		"tracefs", "pstore", "bpf", "configfs", "mqueue", "hugetlbfs", "autofs", "binfmt_misc", "rpc_pipefs", "nsfs",
		"efivarfs", "selinuxfs", "squashfs", "iso9660", "erofs", "udf",
		"nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "9p", "virtiofs", "afs":
		return true
	}
	return strings.HasPrefix(fstype, "fuse")
}

// localMounts reads proc_pid_mountinfo(5); of several mounts of one device it takes
// the one with the shortest path.
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
		if passedOver(fstype) || readOnly(options) && root != "/" || readOnly(f[len(f)-1]) {
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

func readOnly(options string) bool { return slices.Contains(strings.Split(options, ","), "ro") }

// unescapeMount undoes \040 and the like.
func unescapeMount(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func fileProbe() Probe {
	return Probe{
		Name: "file", Summary: "Existence, age and size of a file.",
		Args: []Arg{
			{Name: "path", Type: Text, Must: true, Help: "file or glob pattern; for several files the newest counts for age and each for size"},
			{Name: "exists", Type: Bool, Default: "true", Help: "false: critical when the file exists"},
			{Name: "warnAge", Type: Duration, Help: "warning when older (time of the last change of contents)"},
			{Name: "critAge", Type: Duration, Help: "critical when older"},
			{Name: "minSize", Type: Size, Help: "critical when smaller"},
			{Name: "maxSize", Type: Size, Help: "critical when larger"},
		},
		run: runFile,
	}
}

func runFile(_ context.Context, env *Env, a args, r *report) {
	pattern := a.text("path")
	paths, err := filepath.Glob(env.path(pattern))
	if err != nil {
		r.add(model.Unknown, "path %q: %v", pattern, err)
		return
	}
	if len(paths) == 0 {
		if _, err := os.Lstat(env.path(pattern)); err == nil {
			paths = []string{env.path(pattern)} // a name that looks like a pattern
		}
	}
	if !a.bool("exists") {
		if len(paths) > 0 {
			r.add(model.Critical, "%s exists", paths[0])
		} else {
			r.add(model.OK, "%s does not exist", pattern)
		}
		return
	}
	var newest os.FileInfo
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			r.add(model.Unknown, "%v", err)
			continue
		}
		if newest == nil || info.ModTime().After(newest.ModTime()) {
			newest = info
		}
		if least, ok := a.size("minSize"); ok && info.Size() < least {
			r.add(model.Critical, "%s has %s, less than %s", path, bytesText(float64(info.Size())), model.Size(least))
		}
		if most, ok := a.size("maxSize"); ok && info.Size() > most {
			r.add(model.Critical, "%s has %s, more than %s", path, bytesText(float64(info.Size())), model.Size(most))
		}
	}
	if newest == nil {
		if len(paths) == 0 {
			r.add(model.Critical, "%s does not exist", pattern)
		}
		return
	}
	age := env.now().Sub(newest.ModTime())
	most := a.levels("warnAge", "critAge", atMost)
	r.add(most.status(max(age, 0).Seconds()), "%s is %s old and has %s", newest.Name(), ageText(max(age, 0)), bytesText(float64(newest.Size())))
	r.measure("age", age.Truncate(time.Second).Seconds(), "s", most, nan(), nan())
	r.measure("size", float64(newest.Size()), "B", levels{}, 0, nan())
}
