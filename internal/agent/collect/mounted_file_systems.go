package collect

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
)

// mount is a mounted file system, read from one line of /proc/mounts.
type mount struct{ path, kind, options string }

// unescapeMount returns the path of a mount without the escapes of /proc/mounts.
var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mounts returns the mounted file systems, in the order of /proc/mounts.
func (m *machine) mounts() (list []mount, err error) {
	text, err := m.read("/proc/mounts")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) >= 4 {
			list = append(list, mount{unescapeMount.Replace(f[1]), f[2], f[3]})
		}
	}
	return list, nil
}

// discoverFileSystems collects the item vfs.fs.discovery, the mounted file systems for Zabbix's low-level discovery.
func discoverFileSystems(_ context.Context, m *machine, _ *Key) (item.Value, error) {
	list, err := m.mounts()
	if err != nil {
		return item.Value{}, err
	}
	rows := []map[string]string{}
	for _, one := range list {
		rows = append(rows, map[string]string{"{#FSNAME}": one.path, "{#FSTYPE}": one.kind})
	}
	return jsonValue(rows)
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

// fileSystems collects the item vfs.fs.get, all mounted file systems with sizes and inodes, as JSON. It asks each file
// system in turn: one that does not answer makes the item unsupported.
func fileSystems(ctx context.Context, m *machine, _ *Key) (item.Value, error) {
	list, err := m.mounts()
	if err != nil {
		return item.Value{}, err
	}
	type row struct {
		Name    string  `json:"fsname"`
		Kind    string  `json:"fstype"`
		Bytes   amounts `json:"bytes"`
		Inodes  amounts `json:"inodes"`
		Options string  `json:"options"`
	}
	rows, seen := []row{}, map[string]bool{}
	for _, one := range list {
		if ctx.Err() != nil {
			return item.Value{}, ctx.Err()
		}
		if seen[one.path] {
			continue
		}
		u, err := statfs(filepath.Join("/", m.root, one.path))
		if err != nil {
			continue // the agent may not read this one
		}
		seen[one.path] = true
		rows = append(rows, row{one.path, one.kind, newAmounts(u.total, u.free, u.used, 0), newAmounts(u.inodes, u.inodesFree, u.inodes-u.inodesFree, 100), one.options})
	}
	return jsonValue(rows)
}
