package doctor

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// fullDisk is the free space below which a disk counts as full.
const fullDisk = 64 << 20

// shownFiles is how many files and folders FullDiskText names.
const shownFiles = 3

// FullDiskText returns a text for operators about the journal's full disk, with the largest files and helpful
// commands. It lists the largest files and folders, and the commands that free space.
func FullDiskText(data, journal string) string {
	type item struct {
		path string
		size int64
	}
	items := []item{{journal, folderSize(journal)}}
	entries, _ := os.ReadDir(data) // the text is useful without it
	for _, e := range entries {
		path := filepath.Join(data, e.Name())
		size := folderSize(path) // a file is a folder of one
		if database, ok := strings.CutSuffix(path, "-wal"); ok {
			path = database
		}
		if i := slices.IndexFunc(items, func(x item) bool { return x.path == path }); i >= 0 {
			if path != journal {
				items[i].size += size
			}
			continue
		}
		items = append(items, item{path, size})
	}
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(b.size, a.size) })
	var largest []string
	for _, x := range items[:min(shownFiles, len(items))] {
		largest = append(largest, x.path+" "+formatSize(x.size))
	}
	return fmt.Sprintf("Largest here: %s. Free space on this disk: df -h %s; du -xah %s | sort -h | tail", strings.Join(largest, ", "), journal, mountPoint(journal))
}

// mountPoint returns the folder at which the disk of a path is mounted.
func mountPoint(path string) string {
	path = nearestFolder(path)
	device, ok := deviceOf(path)
	for ok && path != filepath.Dir(path) {
		if above, known := deviceOf(filepath.Dir(path)); !known || above != device {
			break
		}
		path = filepath.Dir(path)
	}
	return path
}
