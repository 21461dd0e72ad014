package collect

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sys/windows"

	"github.com/muster-fleet/muster/internal/item"
)

// statfs returns size and free space of a file system. Windows has no inodes.
func statfs(path string) (u diskUsage, err error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return u, err
	}
	var free, total uint64
	if err := windows.GetDiskFreeSpaceEx(p, &free, &total, nil); err != nil {
		return u, err
	}
	return diskUsage{total: float64(total), free: float64(free), used: float64(total - min(free, total))}, nil
}

// volume is a mounted file system, with a drive letter or as a folder.
type volume struct{ name, kind, label, driveType string }

// splitList splits a list of texts, each with a zero at its end. The last zeros may be missing in the registry.
func splitList(list []uint16) (texts []string) {
	for len(list) > 0 && list[0] != 0 {
		end := slices.Index(list, 0)
		if end < 0 {
			end = len(list)
		}
		texts = append(texts, windows.UTF16ToString(list[:end]))
		list = list[min(end+1, len(list)):]
	}
	return texts
}

// volumePaths returns the paths of the mounted file systems, drive letters before folders.
func volumePaths() ([]string, error) {
	buffer := make([]uint16, 4<<10)
	n, err := windows.GetLogicalDriveStrings(uint32(len(buffer)), &buffer[0])
	if err != nil {
		return nil, err
	}
	paths := splitList(buffer[:min(int(n), len(buffer))])
	name := make([]uint16, windows.MAX_PATH+1)
	search, err := windows.FindFirstVolume(&name[0], uint32(len(name)))
	if err != nil {
		return paths, nil
	}
	defer windows.FindVolumeClose(search)
	for ; err == nil; err = windows.FindNextVolume(search, &name[0], uint32(len(name))) {
		var size uint32
		if windows.GetVolumePathNamesForVolumeName(&name[0], &buffer[0], uint32(len(buffer)), &size) != nil {
			continue // a volume with more folders than the buffer has place for, or without any
		}
		for _, path := range splitList(buffer[:min(int(size), len(buffer))]) {
			if len(path) > 3 {
				paths = append(paths, path)
			}
		}
	}
	return paths, nil
}

// driveTypes are Zabbix's names for the types of drives, in the order of their numbers in Windows.
var driveTypes = []string{"unknown", "norootdir", "removable", "fixed", "remote", "cdrom", "ramdisk"}

// volumes returns the mounted file systems.
func volumes() (list []volume, err error) {
	paths, err := volumePaths()
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		p, err := windows.UTF16PtrFromString(path)
		if err != nil {
			return nil, err
		}
		v := volume{name: strings.TrimSuffix(path, `\`), kind: "UNKNOWN", driveType: "unknown"}
		if i := windows.GetDriveType(p); int(i) < len(driveTypes) {
			v.driveType = driveTypes[i]
		}
		label, kind := make([]uint16, windows.MAX_PATH+1), make([]uint16, windows.MAX_PATH+1)
		if windows.GetVolumeInformation(p, &label[0], uint32(len(label)), nil, nil, nil, &kind[0], uint32(len(kind))) == nil {
			v.label, v.kind = windows.UTF16ToString(label), windows.UTF16ToString(kind)
		}
		list = append(list, v)
	}
	return list, nil
}

// discoverFileSystems collects the item vfs.fs.discovery, the mounted file systems for Zabbix's low-level discovery.
func discoverFileSystems(context.Context, *machine, *Key) (item.Value, error) {
	list, err := volumes()
	if err != nil {
		return item.Value{}, err
	}
	rows := []map[string]string{}
	for _, v := range list {
		rows = append(rows, map[string]string{"{#FSNAME}": v.name, "{#FSTYPE}": v.kind, "{#FSLABEL}": v.label, "{#FSDRIVETYPE}": v.driveType})
	}
	return jsonValue(rows)
}

// fileSystems collects the item vfs.fs.get, all mounted file systems with their sizes, as JSON.
func fileSystems(ctx context.Context, _ *machine, _ *Key) (item.Value, error) {
	list, err := volumes()
	if err != nil {
		return item.Value{}, err
	}
	type row struct {
		Name      string  `json:"fsname"`
		Kind      string  `json:"fstype"`
		Label     string  `json:"fslabel"`
		DriveType string  `json:"fsdrivetype"`
		Bytes     amounts `json:"bytes"`
	}
	rows := []row{}
	for _, v := range list {
		if ctx.Err() != nil {
			return item.Value{}, ctx.Err()
		}
		if u, err := statfs(v.name + `\`); err == nil { // a drive may have no disk
			rows = append(rows, row{v.name, v.kind, v.label, v.driveType, newAmounts(u.total, u.free, u.used, 0)})
		}
	}
	return jsonValue(rows)
}
