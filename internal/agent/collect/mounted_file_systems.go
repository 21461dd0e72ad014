//go:build !windows

package collect

import (
	"context"
	"path/filepath"

	"github.com/muster-fleet/muster/internal/item"
)

// mount is a mounted file system, read from one line of /proc/mounts.
type mount struct{ path, kind, options string }

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
