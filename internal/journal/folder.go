package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
)

// formatFile describes the folder. It is text, so that a person can read it.
const formatFile = "FORMAT"

// lockFile is locked against a second process.
const lockFile = "LOCK"

// folder is the content of FORMAT.
type folder struct {
	incarnation Incarnation
	partitions  int
	stores      map[string]int
	ancestors   []ancestor // oldest first
}

// ancestor is an earlier incarnation, which has the same commits up to last.
type ancestor struct {
	Incarnation
	last uint64
}

// isKnown returns whether a commit may carry the incarnation.
func (f *folder) isKnown(id uint64) bool {
	if id == f.incarnation.ID {
		return true
	}
	for _, a := range f.ancestors {
		if a.ID == id {
			return true
		}
	}
	return false
}

func (f *folder) encode() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "muster journal %d\n", version)
	fmt.Fprintf(&b, "partitions %d\n", f.partitions)
	for _, name := range slices.Sorted(maps.Keys(f.stores)) {
		fmt.Fprintf(&b, "store %s %d\n", name, f.stores[name])
	}
	for _, a := range f.ancestors {
		fmt.Fprintf(&b, "ancestor %016x %d %d\n", a.ID, a.Epoch, a.last)
	}
	fmt.Fprintf(&b, "incarnation %016x %d\n", f.incarnation.ID, f.incarnation.Epoch)
	fmt.Fprintf(&b, "crc %08x\n", crc32.Checksum([]byte(b.String()), castagnoli))
	return []byte(b.String())
}

var (
	errFormat   = errors.New("its content is damaged")
	errNoFormat = errors.New("the file is missing")
)

func parseFolder(data []byte) (*folder, error) {
	f := &folder{stores: map[string]int{}}
	text := string(data)
	at := strings.LastIndex(text, "crc ")
	var sum uint32
	if at < 0 || len(text) != at+len("crc 00000000\n") {
		return nil, errFormat
	}
	if _, err := fmt.Sscanf(text[at:], "crc %08x\n", &sum); err != nil || sum != crc32.Checksum(data[:at], castagnoli) {
		return nil, errFormat
	}
	for line := range strings.Lines(text[:at]) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		var err error
		switch word {
		case "muster":
			var v int
			if _, err = fmt.Sscanf(rest, "journal %d", &v); err == nil && v > version {
				return nil, errVersion
			}
		case "partitions":
			_, err = fmt.Sscanf(rest, "%d", &f.partitions)
		case "store":
			var name string
			var v int
			_, err = fmt.Sscanf(rest, "%s %d", &name, &v)
			f.stores[name] = v
		case "ancestor":
			var a ancestor
			_, err = fmt.Sscanf(rest, "%x %d %d", &a.ID, &a.Epoch, &a.last)
			f.ancestors = append(f.ancestors, a)
		case "incarnation":
			_, err = fmt.Sscanf(rest, "%x %d", &f.incarnation.ID, &f.incarnation.Epoch)
		}
		if err != nil {
			return nil, errFormat
		}
	}
	if f.incarnation.ID == 0 {
		return nil, errFormat
	}
	return f, nil
}

// readFolder reads FORMAT; nil without an error where there is none.
func readFolder(fsys disk.FS, dir string) (*folder, error) {
	path := filepath.Join(dir, formatFile)
	data, err := disk.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	f, err := parseFolder(data)
	if errors.Is(err, errVersion) {
		return nil, newerError(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	return f, nil
}

// newerError reports a file that a newer version of the program wrote.
func newerError(path string) error {
	return model.Errorf(model.Conflict, "%q was %w", path, errVersion).
		WithHint("install the version of Muster that wrote it, or a later one")
}

func (f *folder) save(fsys disk.FS, dir string) error {
	if err := disk.WriteFile(fsys, dir, formatFile, f.encode()); err != nil {
		return fmt.Errorf("write %q: %w", filepath.Join(dir, formatFile), err)
	}
	return nil
}

// check compares the folder with the options, and raises the versions of stores.
func (f *folder) check(o *Options, dir string) (changed bool, err error) {
	if f.partitions != o.Partitions {
		return false, model.Errorf(model.Conflict,
			"journal folder %q has %d partitions, this program expects %d", dir, f.partitions, o.Partitions).
			WithHint("the number is fixed at the folder's creation; start with an empty folder")
	}
	for name, v := range o.Stores {
		switch have := f.stores[name]; {
		case have > v:
			return false, model.Errorf(model.Conflict,
				"%s in %q have format %d, this program knows up to %d", name, dir, have, v).
				WithHint("install the version of Muster that wrote them, or a later one")
		case have < v:
			f.stores[name], changed = v, true
		}
	}
	return changed, nil
}

// newFolder returns a folder without an incarnation.
func newFolder(o *Options) *folder {
	f := &folder{partitions: o.Partitions, stores: map[string]int{}}
	maps.Copy(f.stores, o.Stores)
	return f
}

// renew gives the folder a new incarnation, which shares the commits up to last with the present one
// (zero: the folder is new).
func (f *folder) renew(o *Options, last uint64) error {
	var id [8]byte
	if _, err := io.ReadFull(o.Rand, id[:]); err != nil {
		return fmt.Errorf("draw an incarnation: %w", err)
	}
	if f.incarnation.ID != 0 {
		f.ancestors = append(f.ancestors, ancestor{f.incarnation, last})
	}
	f.incarnation = Incarnation{
		ID:    binary.LittleEndian.Uint64(id[:]) | 1, // never zero
		Epoch: max(uint64(o.Clock.Wall()/int64(time.Second)), f.incarnation.Epoch+1),
	}
	return nil
}

// lock locks the folder for this process.
func lock(o *Options, dir string) (io.Closer, error) {
	held, err := o.FS.Lock(filepath.Join(dir, lockFile))
	var other *disk.LockedError
	if errors.As(err, &other) {
		return nil, model.Errorf(model.Conflict, "journal folder %q is in use by %s", dir, other.Holder()).
			WithHint("stop that process, or choose another folder with --data")
	}
	if err != nil {
		return nil, fmt.Errorf("lock journal folder %q: %w", dir, err)
	}
	return held, nil
}

// NewIncarnation gives a restored backup a new incarnation before it is opened. Its commits stay
// readable by their old positions, and commits that the original wrote after the backup cannot be
// confused with its own.
func NewIncarnation(dir string, o Options) (Incarnation, error) {
	o.Tick, o.Reserve, o.Deliver, o.renew = -1, -1, nil, true
	l, err := Open(dir, o)
	if err != nil {
		return Incarnation{}, err
	}
	return l.Incarnation(), l.Close()
}
