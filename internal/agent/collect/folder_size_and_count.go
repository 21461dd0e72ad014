package collect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/item"
)

// folderWalk selects the files below a folder by name patterns, depth and excluded folders
type folderWalk struct {
	include, exclude, excludeFolder *regexp.Regexp
	depth                           int // of folders below the first one; -1: all
}

// newFolderWalk reads the search settings of a folder walk from the parameters of an item key. The settings are the
// name patterns, the depth and the excluded folders.
func newFolderWalk(k *Key, depth, excludeFolder int) (w folderWalk, err error) {
	for i, to := range map[int]**regexp.Regexp{1: &w.include, 2: &w.exclude, excludeFolder: &w.excludeFolder} {
		if pattern := k.Parameter(i, ""); pattern != "" {
			if *to, err = regexp.Compile(pattern); err != nil {
				return w, fmt.Errorf("%s: %w", k.Name, err)
			}
		}
	}
	if w.depth, err = strconv.Atoi(k.Parameter(depth, "-1")); err != nil || w.depth < -1 {
		return w, fmt.Errorf("%s: the depth %q is not a number of -1 or more", k.Name, k.Parameter(depth, ""))
	}
	return w, nil
}

// matchesName reports whether a file name matches the include pattern and not the exclude pattern
func (w *folderWalk) matchesName(name string) bool {
	return (w.include == nil || w.include.MatchString(name)) && (w.exclude == nil || !w.exclude.MatchString(name))
}

// visitFiles calls the function `each` for every selected file below a folder
func (w *folderWalk) visitFiles(ctx context.Context, root string, each func(info fs.FileInfo)) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if path == root {
			return err
		}
		if err != nil {
			return nil // a folder that the agent may not read is left out
		}
		inner, _ := filepath.Rel(root, path)
		deep := strings.Count(inner, string(filepath.Separator))
		if w.depth >= 0 && deep > w.depth || d.IsDir() && w.excludeFolder != nil && w.excludeFolder.MatchString(d.Name()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := d.Info(); err == nil && w.matchesName(d.Name()) {
			each(info)
		}
		return nil
	})
}

// folder returns the path and file information of the folder that an item key's first parameter names.
func (m *machine) folder(k *Key) (string, fs.FileInfo, error) {
	path, err := m.path(k)
	if err != nil {
		return "", nil, err
	}
	info, err := os.Lstat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder", path)
	}
	return path, info, err
}

// folderSize collects the item vfs.dir.size, the total size of a folder's files, links and folders. The parameters are
// [PATH,INCLUDE,EXCLUDE,apparent|disk,DEPTH,EXCLUDED FOLDERS]. A file with several names counts once.
func folderSize(ctx context.Context, m *machine, k *Key) (item.Value, error) {
	path, root, err := m.folder(k)
	if err != nil {
		return item.Value{}, err
	}
	w, err := newFolderWalk(k, 4, 5)
	if err != nil {
		return item.Value{}, err
	}
	mode := k.Parameter(3, "apparent")
	if mode != "apparent" && mode != "disk" {
		return item.Value{}, errUnknownMode(k, 3, "apparent", "disk")
	}
	sum, seen := uint64(0), map[fileID]bool{}
	add := func(info fs.FileInfo) {
		if kind := fileType(info.Mode()); kind != "dir" && kind != "file" && kind != "sym" {
			return
		}
		id, blocks := fileBlocks(info)
		if !info.IsDir() && id.links > 1 {
			if seen[id] {
				return
			}
			seen[id] = true
		}
		if mode == "disk" {
			sum += blocks
		} else {
			sum += uint64(info.Size())
		}
	}
	if w.matchesName(filepath.Base(path)) {
		add(root)
	}
	err = w.visitFiles(ctx, path, add)
	return item.FromUnsigned(sum), err
}

// folderCount collects the item vfs.dir.count, the number of matching files below a folder. The parameters are
// [PATH,INCLUDE,EXCLUDE,TYPES,EXCEPT,DEPTH,LEAST SIZE,MOST SIZE,LEAST AGE,MOST AGE,EXCLUDED FOLDERS].
func folderCount(ctx context.Context, m *machine, k *Key) (item.Value, error) {
	path, _, err := m.folder(k)
	if err != nil {
		return item.Value{}, err
	}
	w, err := newFolderWalk(k, 5, 10)
	if err != nil {
		return item.Value{}, err
	}
	include, err := parseFileTypes(k, 3)
	if err != nil {
		return item.Value{}, err
	}
	except, err := parseFileTypes(k, 4)
	if err != nil {
		return item.Value{}, err
	}
	limits := [4]int64{0, math.MaxInt64, 0, math.MaxInt64}
	for i := range limits {
		units := [2]string{"KMGT", "smhdw"}[i/2]
		if text := k.Parameter(6+i, ""); text != "" {
			if limits[i], err = scaledNumber(text, units); err != nil {
				return item.Value{}, fmt.Errorf("%s: %w", k.Name, err)
			}
		}
	}
	count, now := uint64(0), time.Now().Unix()
	err = w.visitFiles(ctx, path, func(info fs.FileInfo) {
		kind, age := fileType(info.Mode()), now-info.ModTime().Unix()
		if (len(include) == 0 || include[kind]) && !except[kind] && info.Size() >= limits[0] && info.Size() <= limits[1] &&
			(limits[2] == 0 || age >= limits[2]) && (limits[3] == math.MaxInt64 || age <= limits[3]) {
			count++
		}
	})
	return item.FromUnsigned(count), err
}

// scaledNumber parses a number with a unit suffix, such as 10K (bytes) or 5m (seconds). The parameter units has the
// allowed suffixes.
func scaledNumber(text, units string) (int64, error) {
	factors := map[byte]int64{'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30, 'T': 1 << 40, 's': 1, 'm': 60, 'h': 3600, 'd': 86400, 'w': 604800}
	number, factor := text, int64(1)
	if last := len(text) - 1; last > 0 && strings.IndexByte(units, text[last]) >= 0 {
		number, factor = text[:last], factors[text[last]]
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return 0, errors.New(text + " is no number with one of the units " + strings.Join(strings.Split(units, ""), ", "))
	}
	return n * factor, nil
}
