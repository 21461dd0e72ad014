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

// formatFile is the name of the text file that describes a journal folder: format versions and incarnations.
const formatFile = "FORMAT"

// lockFile is the name of the file that a process locks while the journal folder is open.
const lockFile = "LOCK"

// folderFormat is the decoded file FORMAT of a journal folder, with partition count, store versions and journal
// ids. It has the number of partitions, the format versions of the stores and the incarnations (ids of the
// log).
type folderFormat struct {
	incarnation Incarnation
	partitions  int
	stores      map[string]int
	ancestors   []ancestorIncarnation // oldest first
	closed      uint64                // last commit when the log was closed; zero: it never was
}

// ancestorIncarnation is an earlier id of the journal, with the last commit from that time. The present log still has
// its commits up to the number last.
type ancestorIncarnation struct {
	Incarnation
	last uint64
}

// isKnown reports whether an incarnation id is the journal's present or earlier id
func (f *folderFormat) isKnown(id uint64) bool {
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

// encode encodes the file FORMAT.
func (f *folderFormat) encode() []byte {
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
	if f.closed > 0 {
		fmt.Fprintf(&b, "closed %d\n", f.closed)
	}
	fmt.Fprintf(&b, "crc %08x\n", crc32.Checksum([]byte(b.String()), castagnoli))
	return []byte(b.String())
}

var (
	errFormatDamaged = errors.New("the content of FORMAT is damaged")
	errFormatMissing = errors.New("the file is missing")
)

// parseFormatFile decodes the file FORMAT and verifies its checksum.
func parseFormatFile(data []byte) (*folderFormat, error) {
	f := &folderFormat{stores: map[string]int{}}
	text := string(data)
	at := strings.LastIndex(text, "crc ")
	var sum uint32
	if at < 0 || len(text) != at+len("crc 00000000\n") {
		return nil, errFormatDamaged
	}
	if _, err := fmt.Sscanf(text[at:], "crc %08x\n", &sum); err != nil || sum != crc32.Checksum(data[:at], castagnoli) {
		return nil, errFormatDamaged
	}
	for line := range strings.Lines(text[:at]) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		var err error
		switch word {
		case "muster":
			var v int
			if _, err = fmt.Sscanf(rest, "journal %d", &v); err == nil && v > version {
				return nil, errNewerVersion
			}
		case "partitions":
			_, err = fmt.Sscanf(rest, "%d", &f.partitions)
		case "store":
			var name string
			var v int
			_, err = fmt.Sscanf(rest, "%s %d", &name, &v)
			f.stores[name] = v
		case "ancestor":
			var a ancestorIncarnation
			_, err = fmt.Sscanf(rest, "%x %d %d", &a.ID, &a.Epoch, &a.last)
			f.ancestors = append(f.ancestors, a)
		case "incarnation":
			_, err = fmt.Sscanf(rest, "%x %d", &f.incarnation.ID, &f.incarnation.Epoch)
		case "closed":
			_, err = fmt.Sscanf(rest, "%d", &f.closed)
		}
		if err != nil {
			return nil, errFormatDamaged
		}
	}
	if f.incarnation.ID == 0 {
		return nil, errFormatDamaged
	}
	return f, nil
}

// readFormatFile reads and decodes the file FORMAT of a journal folder. It returns nil without an error if the file does
// not exist.
func readFormatFile(fsys disk.FS, dir string) (*folderFormat, error) {
	path := filepath.Join(dir, formatFile)
	data, err := disk.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal's format file %q: %w", path, err)
	}
	f, err := parseFormatFile(data)
	if errors.Is(err, errNewerVersion) {
		return nil, newerVersionError(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal's format file %q: %w", path, err)
	}
	return f, nil
}

// newerVersionError returns the error about a file that a newer version of the program wrote.
func newerVersionError(path string) error {
	return model.Errorf(model.Conflict, "cannot read journal file %q: the file was %w", path, errNewerVersion).
		WithHint("install the version of Muster that wrote it, or a later one")
}

// writeFormatFile writes the file FORMAT to the journal folder.
func (f *folderFormat) writeFormatFile(fsys disk.FS, dir string) error {
	if err := disk.WriteFile(fsys, dir, formatFile, f.encode()); err != nil {
		return fmt.Errorf("write the journal's format file %q: %w", filepath.Join(dir, formatFile), err)
	}
	return nil
}

// recordClose writes the number of the last commit into the file FORMAT while the log is being closed. So the
// next Open detects a missing end of the log. It leaves the file of another log alone, which is there if
// somebody deleted the folder and a new log was made.
func (f *folderFormat) recordClose(o *Options, dir string, last uint64) {
	if present, err := readFormatFile(o.FS, dir); last <= f.closed || err != nil || present == nil || present.incarnation != f.incarnation {
		return
	}
	f.closed = last
	if err := f.writeFormatFile(o.FS, dir); err != nil {
		o.Logger.Warn("cannot record the end of the journal: the next start cannot notice a loss of its last commits", "err", err)
	}
}

// checkOptions refuses options that do not fit the file FORMAT. It also raises the stores' format versions in the file
// to the versions in the options.
func (f *folderFormat) checkOptions(o *Options, dir string) (changed bool, err error) {
	if f.partitions != o.Partitions {
		return false, model.Errorf(model.Conflict,
			"journal folder %q has %d partitions, this program expects %d", dir, f.partitions, o.Partitions).
			WithHint("the number is fixed at the folder's creation; start with an empty folder")
	}
	for name, v := range o.Stores {
		switch have := f.stores[name]; {
		case have > v:
			return false, model.Errorf(model.Conflict,
				"data of type %s in folder %q have format version %d, this program reads versions up to %d", name, dir, have, v).
				WithHint("install the version of Muster that wrote them, or a later one")
		case have < v:
			f.stores[name], changed = v, true
		}
	}
	return changed, nil
}

// newFolderFormat returns the content of the file FORMAT for a folder without a journal. It has no incarnation id yet.
func newFolderFormat(o *Options) *folderFormat {
	f := &folderFormat{partitions: o.Partitions, stores: map[string]int{}}
	maps.Copy(f.stores, o.Stores)
	return f
}

// startIncarnation gives the journal a new random id (incarnation). It records that the journal shares the
// commits up to number last with the former id (zero if the folder is new).
func (f *folderFormat) startIncarnation(o *Options, last uint64) error {
	var id [8]byte
	if _, err := io.ReadFull(o.Rand, id[:]); err != nil {
		return fmt.Errorf("create a random id for the journal: %w", err)
	}
	if f.incarnation.ID != 0 {
		f.ancestors = append(f.ancestors, ancestorIncarnation{f.incarnation, last})
	}
	f.incarnation = Incarnation{
		ID:    binary.LittleEndian.Uint64(id[:]) | 1, // never zero
		Epoch: max(uint64(o.Clock.Wall()/int64(time.Second)), f.incarnation.Epoch+1),
	}
	return nil
}

// lockFolder locks the journal folder, so that no other process opens the log.
func lockFolder(o *Options, dir string) (io.Closer, error) {
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

// NewIncarnation gives the journal in a restored backup a new random id. Its commits stay readable by their old
// positions, and commits that the original wrote after the backup cannot be confused with its own.
func NewIncarnation(dir string, o Options) (Incarnation, error) {
	o.Tick, o.Reserve, o.Deliver, o.renew = -1, -1, nil, true
	l, err := Open(dir, o)
	if err != nil {
		return Incarnation{}, err
	}
	return l.Incarnation(), l.Close()
}
