package subject

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/version"
)

// Environment returns the conditions of a run. It measures the disk for some seconds, so callers do this before the
// run. Unknown values are absent.
func (s *Subject) Environment(ctx context.Context) *report.Environment {
	e := Here(ctx, s.Data)
	e.Server = s.build(ctx)
	return e
}

// Here returns the conditions that this machine sets: its limits, and the measured disk below a folder; an empty folder
// means that the data is elsewhere.
func Here(ctx context.Context, folder string) *report.Environment {
	e := &report.Environment{Virtual: virtual(), Limits: limits()}
	if folder != "" {
		e.FileSystem, e.Device = mount(folder)
		e.Fsync, _ = Fsync(ctx, folder, fsyncs) // a folder that may not be written to has no figure
	}
	return e
}

// build returns the version and the flags of the server.
func (s *Subject) build(ctx context.Context) map[string]string {
	about := map[string]string{}
	if data, err := s.get(ctx, "/debug/version"); err == nil {
		var v version.Info
		if json.Unmarshal(data, &v) == nil {
			about["version"], about["commit"], about["go"] = v.Version, v.Commit, v.Go
			if v.Dirty {
				about["commit"] += " with changes"
			}
		}
	}
	if s.own {
		about["program"], about["flags"] = s.words[0], strings.Join(s.Flags, " ")
	}
	if s.cores > 0 {
		about["cores"] = strconv.Itoa(s.cores) + " (GOMAXPROCS)"
	}
	return withoutEmpty(about)
}

// limits returns the limits of this process, inherited by the server, and of the kernel.
func limits() map[string]string {
	bounds := map[string]string{}
	if self, err := procfs.Self(); err == nil {
		if l, err := self.Limits(); err == nil {
			bounds["open files"], bounds["processes"], bounds["locked memory"] = count(l.OpenFiles), count(l.Processes), count(l.LockedMemory)
		}
	}
	for _, name := range []string{"net.ipv4.ip_local_port_range", "net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog", "net.ipv4.tcp_tw_reuse",
		"net.core.rmem_max", "net.core.wmem_max", "net.netfilter.nf_conntrack_max", "fs.file-max", "fs.nr_open", "vm.overcommit_memory",
		"vm.max_map_count", "vm.swappiness", "vm.dirty_ratio", "kernel.pid_max", "kernel.threads-max"} {
		bounds[name] = text(filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/")))
	}
	bounds["cpu governor"] = text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	bounds["transparent huge pages"] = text("/sys/kernel/mm/transparent_hugepage/enabled")
	bounds["cgroup cpu.max"] = text("/sys/fs/cgroup/cpu.max")
	bounds["cgroup memory.max"] = text("/sys/fs/cgroup/memory.max")
	return withoutEmpty(bounds)
}

// virtual returns the kind of virtual machine or container, or an empty text on bare metal.
func virtual() string {
	var kinds []string
	for file, kind := range map[string]string{"/.dockerenv": "docker", "/run/.containerenv": "podman"} {
		if _, err := os.Stat(file); err == nil {
			kinds = append(kinds, kind)
		}
	}
	if c := text("/run/systemd/container"); c != "" && !slices.Contains(kinds, c) {
		kinds = append(kinds, c)
	}
	if cpus, err := os.ReadFile("/proc/cpuinfo"); err == nil && slices.Contains(strings.Fields(string(cpus)), "hypervisor") {
		kinds = append(kinds, cmp.Or(text("/sys/class/dmi/id/product_name"), text("/sys/hypervisor/type"), "virtual machine"))
	}
	slices.Sort(kinds)
	return strings.Join(kinds, " in ")
}

// mount returns the file system of a folder with its options, and its device.
func mount(dir string) (fileSystem, device string) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	mounts, err := procfs.GetMounts()
	if err != nil {
		return "", ""
	}
	longest := -1
	for _, m := range mounts {
		inside, err := filepath.Rel(m.MountPoint, dir)
		if err != nil || inside == ".." || strings.HasPrefix(inside, "../") || len(m.MountPoint) < longest {
			continue
		}
		longest = len(m.MountPoint)
		fileSystem, device = m.FSType+" "+options(m.Options, m.SuperOptions), m.Source
	}
	return fileSystem, device
}

// options returns the options of a mount, sorted.
func options(sets ...map[string]string) string {
	var words []string
	for _, set := range sets {
		for name, value := range set {
			if value != "" {
				name += "=" + value
			}
			if !slices.Contains(words, name) {
				words = append(words, name)
			}
		}
	}
	slices.Sort(words)
	return strings.Join(words, ",")
}

// text returns the content of a small file, or an empty text.
func text(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(data)), " ")
}

// withoutEmpty removes empty values from a map.
func withoutEmpty(m map[string]string) map[string]string {
	maps.DeleteFunc(m, func(_, value string) bool { return value == "" })
	return m
}

// count formats a limit.
func count(n uint64) string {
	if n == math.MaxUint64 {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}
