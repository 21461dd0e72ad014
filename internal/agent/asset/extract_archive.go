package asset

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Limits has the limits for extracting one archive. The limits are the bytes, the ratio of extracted to compressed
// bytes, and the number of files.
type Limits struct {
	Bytes int64 // of all files
	Free  int64 // of all files, allowed for the smallest archive …
	Ratio int64 // … above it the files may have this multiple of the archive's length
	Files int   // files, folders and links
}

// DefaultLimits returns the default limits for the size and number of an archive's files.
func DefaultLimits() Limits {
	return Limits{Bytes: 2 << 30, Free: 64 << 20, Ratio: 100, Files: 100_000}
}

const (
	maxNameBytes = 1024
	maxPartBytes = 255 // between two slashes, the limit of file systems
	maxDepth     = 64
	maxListBytes = 256 // in the list of a zip file, of each file that there may be
)

// Extract unpacks a tar or zip archive into the empty folder root, and returns the extracted bytes. The tar archive
// may be compressed by gzip or bzip2. An invalid archive is refused as a whole, with its fault; the caller then
// removes the content of root. Files are synced. Of a file's mode only the execute bit counts.
func Extract(root *os.Root, archive io.ReaderAt, size int64, limits Limits) (bytes int64, err error) {
	x := &extraction{root: root, limits: limits, dirs: map[string]bool{".": true}}
	x.maxBytes = min(limits.Bytes, max(limits.Free, limits.Ratio*size))
	if err := x.unpackArchive(archive, size); err != nil {
		return x.bytes, err
	}
	return x.bytes, x.verifyLinksAndSync()
}

// extraction is the state of one call of Extract. It has the limits, and the numbers of files and bytes so far.
type extraction struct {
	root     *os.Root
	limits   Limits
	maxBytes int64           // limit of the bytes of all files
	bytes    int64           // of all files so far
	count    int             // files, folders and links so far
	dirs     map[string]bool // folders that exist
	links    []string        // symbolic links, verified at the end
}

// unpackArchive detects the format of an archive by its first bytes, and unpacks the archive.
func (x *extraction) unpackArchive(archive io.ReaderAt, size int64) error {
	head := make([]byte, 6)
	n, err := archive.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	head = head[:n]
	whole := io.NewSectionReader(archive, 0, size)
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		return x.unpackZip(archive, size)
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		plain, err := gzip.NewReader(whole)
		if err != nil {
			return fmt.Errorf("incomplete gzip file: %w", err)
		}
		return x.unpackTar(plain)
	case bytes.HasPrefix(head, []byte("BZh")):
		return x.unpackTar(bzip2.NewReader(whole))
	case bytes.HasPrefix(head, []byte{0xfd, '7', 'z', 'X', 'Z'}), bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return errors.New("the archive is compressed with xz or zstd, which agents do not support: use gzip")
	}
	return x.unpackTar(whole)
}

// archiveMember is one file, folder or link in a tar or zip archive.
type archiveMember struct {
	name string
	mode fs.FileMode // of an ordinary file, folder or symbolic link; any other is refused
	link string      // target of a link
	hard bool        // a hard link to an earlier file
}

// unpackTar unpacks a tar file.
func (x *extraction) unpackTar(r io.Reader) error {
	t, heads := tar.NewReader(r), 0
	for {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF) && x.count == 0:
			return errors.New("the file is empty, or not an archive (tar, tar.gz, tar.bz2, zip)")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("incomplete or invalid archive (tar, tar.gz, tar.bz2, zip): %w", err)
		case h.Typeflag == tar.TypeXGlobalHeader:
			if heads++; heads > x.limits.Files { // global headers have no content but cost time
				return fmt.Errorf("the tar archive has more than %d headers (entries with metadata) that belong to no file", x.limits.Files)
			}
			continue
		}
		m := archiveMember{name: h.Name, mode: h.FileInfo().Mode(), link: h.Linkname, hard: h.Typeflag == tar.TypeLink}
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeGNUSparse, tar.TypeLink:
			m.mode &= fs.ModePerm // the type is that of the header, not of the mode's bits
		case tar.TypeDir:
			m.mode = fs.ModeDir
		case tar.TypeSymlink:
			m.mode = fs.ModeSymlink
		default:
			m.mode = fs.ModeIrregular
		}
		if err := x.addMember(m, t); err != nil {
			return err
		}
	}
}

// unpackZip extracts a zip archive, unless its list of files is too long.
func (x *extraction) unpackZip(archive io.ReaderAt, size int64) error {
	list := &boundedReaderAt{ReaderAt: archive, remaining: int64(x.limits.Files)*maxListBytes + 128<<10}
	z, err := zip.NewReader(list, size)
	if list.remaining < 0 {
		return fmt.Errorf("the zip archive has a list of files that is too long: more than %d files", x.limits.Files)
	}
	list.remaining = math.MaxInt64 // the content of each file has its own bound
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return fmt.Errorf("incomplete zip file: %w", err)
	}
	for _, f := range z.File {
		if err := x.unpackZipFile(f); err != nil {
			return err
		}
	}
	if x.count == 0 {
		return errors.New("the archive is empty")
	}
	return nil
}

// boundedReaderAt is an io.ReaderAt that fails after a number of bytes. It limits the memory for a zip archive's list
// of files.
type boundedReaderAt struct {
	io.ReaderAt
	remaining int64
}

// ReadAt reads from the zip file, and fails after more than the permitted number of bytes.
func (b *boundedReaderAt) ReadAt(p []byte, at int64) (int, error) {
	if b.remaining -= int64(len(p)); b.remaining < 0 {
		return 0, errors.New("the list of files in the zip archive is too long")
	}
	return b.ReaderAt.ReadAt(p, at)
}

// unpackZipFile unpacks one file, folder or link of a zip file
func (x *extraction) unpackZipFile(f *zip.File) error {
	m := archiveMember{name: f.Name, mode: f.Mode()}
	if strings.HasSuffix(f.Name, "/") {
		m.mode = fs.ModeDir
	}
	if !m.mode.IsRegular() && m.mode.Type() != fs.ModeSymlink {
		return x.addMember(m, nil)
	}
	r, err := f.Open()
	if err != nil {
		return fmt.Errorf("%q: %w", shortName(f.Name), err)
	}
	defer r.Close()
	if m.mode.IsRegular() {
		return x.addMember(m, r)
	}
	target, err := io.ReadAll(io.LimitReader(r, maxNameBytes+1))
	if err != nil {
		return fmt.Errorf("%q: %w", shortName(f.Name), err)
	}
	m.link = string(target)
	return x.addMember(m, nil)
}

// localPath returns the path to which an archive member is extracted. A path outside the root folder is an error.
func localPath(name string) (string, error) {
	switch {
	case len(name) > maxNameBytes || strings.Count(name, "/") > maxDepth || slices.ContainsFunc(strings.Split(name, "/"), componentTooLong):
		return "", fmt.Errorf("the file name %q in the archive is too long", shortName(name))
	case strings.ContainsAny(name, "\x00\\"):
		return "", fmt.Errorf("the file name %q in the archive has forbidden characters", shortName(name))
	case strings.HasPrefix(name, "/") || slices.Contains(strings.Split(name, "/"), ".."):
		return "", fmt.Errorf("%q is outside the archive's folder", shortName(name))
	}
	clean := path.Clean(name)
	if name == "" || !filepath.IsLocal(filepath.FromSlash(clean)) {
		return "", fmt.Errorf("%q is outside the archive's folder", shortName(name))
	}
	return clean, nil
}

// addMember extracts one file, folder or link of the archive within the limits. r reads the content of a file.
func (x *extraction) addMember(m archiveMember, r io.Reader) error {
	kind := m.mode.Type()
	if kind != 0 && kind != fs.ModeDir && kind != fs.ModeSymlink {
		return fmt.Errorf("archive member %q is a device, a pipe or another special file, which assets must not contain", shortName(m.name))
	}
	at, err := localPath(m.name)
	if err != nil {
		return err
	}
	if x.count++; x.count > x.limits.Files {
		return fmt.Errorf("the archive is too large: more than %d files", x.limits.Files)
	}
	if err := x.makeFolder(path.Dir(at)); err != nil {
		return err
	}
	switch {
	case m.hard:
		return x.makeHardlink(at, m.link)
	case kind == fs.ModeDir:
		return x.makeFolder(at)
	case kind == fs.ModeSymlink:
		return x.makeSymlink(at, m.link)
	}
	return x.writeFile(at, m.mode, r)
}

// makeFolder makes a folder of the archive, with its parents.
func (x *extraction) makeFolder(at string) error {
	if x.dirs[at] {
		return nil
	}
	if err := x.makeFolder(path.Dir(at)); err != nil {
		return err
	}
	if len(x.dirs) > x.limits.Files {
		return fmt.Errorf("the archive is too large: more than %d folders", x.limits.Files)
	}
	if err := x.root.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return memberError(at, err)
	}
	info, err := x.root.Lstat(at)
	if err != nil {
		return memberError(at, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("the archive contains %q twice: as a folder and as a file or link", shortName(at))
	}
	x.dirs[at] = true
	return memberError(at, x.root.Chmod(at, 0o755)) // independent of the umask
}

// writeFile writes one regular file of the archive and syncs the file to disk.
func (x *extraction) writeFile(at string, mode fs.FileMode, r io.Reader) error {
	f, err := x.root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return memberError(at, err)
	}
	n, err := io.Copy(f, io.LimitReader(r, x.maxBytes-x.bytes+1))
	if x.bytes += n; err == nil && x.bytes > x.maxBytes {
		err = fmt.Errorf("the archive is too large: its files have more than %d bytes, the limit for its compressed size", x.maxBytes)
	}
	perm := fs.FileMode(0o644)
	if mode&0o111 != 0 {
		perm = 0o755
	}
	if err == nil {
		err = f.Chmod(perm)
	}
	if err == nil {
		err = f.Sync()
	}
	return memberError(at, errors.Join(err, f.Close()))
}

// makeSymlink makes a symbolic link of the archive. Later verifyLinksAndSync refuses links that lead outside the
// folder.
func (x *extraction) makeSymlink(at, target string) error {
	if target == "" || len(target) > maxNameBytes || strings.ContainsAny(target, "\x00\\") || strings.HasPrefix(target, "/") ||
		!filepath.IsLocal(filepath.FromSlash(path.Join(path.Dir(at), target))) {
		return fmt.Errorf("%q is a link to a place outside the archive's folder (%q)", shortName(at), shortName(target))
	}
	x.links = append(x.links, at)
	return memberError(at, x.root.Symlink(filepath.FromSlash(target), at))
}

// makeHardlink makes a hard link to an earlier file of the archive.
func (x *extraction) makeHardlink(at, target string) error {
	to, err := localPath(target)
	if err != nil {
		return err
	}
	if info, err := x.root.Lstat(to); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%q is a hard link to %q, which is not an earlier file of the archive", shortName(at), shortName(target))
	}
	return memberError(at, x.root.Link(to, at))
}

// verifyLinksAndSync refuses symbolic links that lead outside the folder, and syncs all folders.
func (x *extraction) verifyLinksAndSync() error {
	for _, at := range x.links {
		if _, err := x.root.Stat(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%q is a link to a place outside the archive's folder, or a loop", shortName(at))
		}
	}
	for at := range x.dirs {
		if err := syncDir(x.root, at); err != nil {
			return memberError(at, err)
		}
	}
	return nil
}

// memberError adds the name of the file, folder or link in the archive to an error.
func memberError(at string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("the archive contains %q twice", shortName(at))
	}
	return fmt.Errorf("%q: %w", shortName(at), err)
}

// componentTooLong reports whether one file or folder name in a path is longer than file systems permit.
func componentTooLong(part string) bool { return len(part) > maxPartBytes }

// shortName shortens a file name for an error message.
func shortName(name string) string { return model.Truncate(name, 200) }
