package collect

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
)

// fileTypes are the types of files that keys name.
var fileTypes = []string{"file", "dir", "sym", "sock", "bdev", "cdev", "fifo"}

// fileType returns Zabbix's name for the type of a file, such as "file", "dir" or "sym"
func fileType(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "dir"
	case mode&fs.ModeSymlink != 0:
		return "sym"
	case mode&fs.ModeSocket != 0:
		return "sock"
	case mode&fs.ModeCharDevice != 0:
		return "cdev"
	case mode&fs.ModeDevice != 0:
		return "bdev"
	case mode&fs.ModeNamedPipe != 0:
		return "fifo"
	}
	return "other"
}

// parseFileTypes parses a list of file types, such as "file,dir", in parameter i of an item key. The set is empty if the
// parameter is empty.
func parseFileTypes(k *Key, i int) (map[string]bool, error) {
	set := map[string]bool{}
	text := k.Parameter(i, "")
	if text == "" {
		return set, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		names := []string{strings.TrimSpace(name)}
		switch names[0] {
		case "all":
			names = fileTypes
		case "dev":
			names = []string{"bdev", "cdev"}
		}
		for _, name := range names {
			if !strings.Contains(" "+strings.Join(fileTypes, " ")+" ", " "+name+" ") {
				return nil, fmt.Errorf("%s: unknown file type %q; expected one or more of all, dev, %s", k.Name, name, strings.Join(fileTypes, ", "))
			}
			set[name] = true
		}
	}
	return set, nil
}

// path returns the file path that the first parameter of an item key names.
func (m *machine) path(k *Key) (string, error) {
	if path := k.Parameter(0, ""); path != "" {
		return pathInRoot(m.root, path), nil
	}
	return "", errNoPath(k)
}

// openFile opens the regular file whose path is the first parameter of an item key. Another kind of file could block.
func (m *machine) openFile(k *Key) (*os.File, error) {
	path, err := m.path(k)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return os.Open(path)
}

// contextReader is a reader of a file that fails when its context ends. So a slow file does not block the agent.
type contextReader struct {
	ctx  context.Context
	from io.Reader
}

// Read reads from the file, or returns the context's error after its end
func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}

// fileExists collects the item vfs.file.exists[PATH,TYPES,EXCEPT], 1 if a file of a permitted type exists, else 0.
func fileExists(_ context.Context, m *machine, k *Key) (item.Value, error) {
	path, err := m.path(k)
	if err != nil {
		return item.Value{}, err
	}
	include, err := parseFileTypes(k, 1)
	if err != nil {
		return item.Value{}, err
	}
	except, err := parseFileTypes(k, 2)
	if err != nil {
		return item.Value{}, err
	}
	if len(include) == 0 {
		for _, name := range fileTypes {
			include[name] = len(except) > 0 || name == "file"
		}
	}
	found, excluded := false, false
	for _, stat := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		info, err := stat(path)
		if err == nil {
			found = found || include[fileType(info.Mode())]
			excluded = excluded || except[fileType(info.Mode())]
		} else if !errors.Is(err, fs.ErrNotExist) {
			return item.Value{}, err
		}
	}
	if found && !excluded {
		return item.FromUnsigned(1), nil
	}
	return item.FromUnsigned(0), nil
}

// fileSize collects the item vfs.file.size[PATH,bytes|lines], the size of a file in bytes or lines.
func fileSize(ctx context.Context, m *machine, k *Key) (item.Value, error) {
	switch k.Parameter(1, "bytes") {
	case "bytes":
		path, err := m.path(k)
		if err != nil {
			return item.Value{}, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return item.Value{}, err
		}
		return item.FromUnsigned(uint64(info.Size())), nil
	case "lines":
		f, err := m.openFile(k)
		if err != nil {
			return item.Value{}, err
		}
		defer f.Close()
		count, part := uint64(0), make([]byte, 64<<10)
		for {
			n, err := (contextReader{ctx, f}).Read(part)
			if count += uint64(bytes.Count(part[:n], []byte{'\n'})); err == io.EOF {
				return item.FromUnsigned(count), nil
			} else if err != nil {
				return item.Value{}, err
			}
		}
	}
	return item.Value{}, errUnknownMode(k, 1, "bytes", "lines")
}

// fileTime collects the item vfs.file.time[PATH,modify|access|change], when a file was last modified, accessed
// or changed.
func fileTime(_ context.Context, m *machine, k *Key) (item.Value, error) {
	path, err := m.path(k)
	if err != nil {
		return item.Value{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return item.Value{}, err
	}
	modify := info.ModTime().Unix()
	access, change := fileTimes(info)
	at, ok := map[string]int64{"modify": modify, "access": access, "change": change}[k.Parameter(1, "modify")]
	if !ok {
		return item.Value{}, errUnknownMode(k, 1, "modify", "access", "change")
	}
	return item.FromUnsigned(uint64(at)), nil
}

// fileContents collects the item vfs.file.contents[PATH], the text of a file.
func fileContents(ctx context.Context, m *machine, k *Key) (item.Value, error) {
	f, err := m.openFile(k)
	if err != nil {
		return item.Value{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(contextReader{ctx, f}, maxText+1))
	if err != nil {
		return item.Value{}, err
	}
	if len(data) > maxText {
		return item.Value{}, fmt.Errorf("%s: the file has over %d KiB", k.Name, maxText>>10)
	}
	return item.FromText(strings.TrimRight(strings.ToValidUTF8(string(data), ""), "\r\n")), nil
}

// fileChecksum collects a file's checksum, the items vfs.file.md5sum[PATH] and vfs.file.cksum[PATH,crc32|md5|sha256].
func fileChecksum(ctx context.Context, m *machine, k *Key) (item.Value, error) {
	mode := k.Parameter(1, "crc32")
	if k.Name == "vfs.file.md5sum" {
		mode = "md5"
	}
	if mode != "crc32" && mode != "md5" && mode != "sha256" {
		return item.Value{}, errUnknownMode(k, 1, "crc32", "md5", "sha256")
	}
	f, err := m.openFile(k)
	if err != nil {
		return item.Value{}, err
	}
	defer f.Close()
	sum, posix := sha256.New(), posixChecksum{}
	to := io.Writer(sum)
	switch mode {
	case "md5":
		sum = md5.New()
		to = sum
	case "crc32":
		to = &posix
	}
	if _, err := io.Copy(to, contextReader{ctx, f}); err != nil {
		return item.Value{}, err
	}
	if mode == "crc32" {
		return item.FromUnsigned(uint64(posix.sum())), nil
	}
	return item.FromText(hex.EncodeToString(sum.Sum(nil))), nil
}

// posixChecksum computes the checksum that the program cksum(1) prints. It is a CRC over the bytes and their number.
// hash/crc32 has the lowest bit first only.
type posixChecksum struct {
	crc    uint32
	length uint64
}

// Write adds bytes to the checksum
func (c *posixChecksum) Write(p []byte) (int, error) {
	for _, b := range p {
		c.add(b)
	}
	c.length += uint64(len(p))
	return len(p), nil
}

// add adds one byte to the CRC.
func (c *posixChecksum) add(b byte) { c.crc = c.crc<<8 ^ posixTable[byte(c.crc>>24)^b] }

// sum returns the checksum of all bytes written so far
func (c posixChecksum) sum() uint32 {
	for n := c.length; n > 0; n >>= 8 {
		c.add(byte(n))
	}
	return ^c.crc
}

// posixTable has the CRC of each byte.
var posixTable = func() (table [256]uint32) {
	for i := range table {
		crc := uint32(i) << 24
		for range 8 {
			if high := crc>>31 == 1; high {
				crc = crc<<1 ^ 0x04c11db7
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()

// maxFileLine bounds a line of a file that is searched, in bytes.
const maxFileLine = 1 << 20

// fileMatch collects the text in a file that matches a regular expression (vfs.file.regexp). For
// vfs.file.regmatch[PATH,REGEXP,ENCODING,START,END] the value is 1 if some text matches.
func fileMatch(ctx context.Context, m *machine, k *Key) (item.Value, error) {
	pattern := k.Parameter(1, "")
	if pattern == "" {
		return item.Value{}, fmt.Errorf("%s: the regular expression is missing; write %s[PATH,REGEXP]", k.Name, k.Name)
	}
	expression, err := regexp.Compile(pattern)
	if err != nil {
		return item.Value{}, fmt.Errorf("%s: %w", k.Name, err)
	}
	if encoding := k.Parameter(2, "UTF-8"); !strings.EqualFold(encoding, "UTF-8") {
		return item.Value{}, fmt.Errorf("%s: agents read files in UTF-8 only, not in the encoding %s", k.Name, encoding)
	}
	first, err := strconv.ParseUint(k.Parameter(3, "0"), 10, 32)
	if err != nil {
		return item.Value{}, fmt.Errorf("%s: the first line %q is not a number", k.Name, k.Parameter(3, ""))
	}
	last, err := strconv.ParseUint(k.Parameter(4, strconv.FormatUint(math.MaxUint32, 10)), 10, 32)
	if err != nil || first > last {
		return item.Value{}, fmt.Errorf("%s: the last line %q is not a number, or is less than the first line", k.Name, k.Parameter(4, ""))
	}
	f, err := m.openFile(k)
	if err != nil {
		return item.Value{}, err
	}
	defer f.Close()
	lines := bufio.NewScanner(contextReader{ctx, f})
	lines.Buffer(nil, maxFileLine)
	for n := uint64(1); n <= last && lines.Scan(); n++ {
		line := strings.TrimRight(lines.Text(), "\r\n")
		if at := expression.FindStringSubmatchIndex(line); at != nil && n >= first {
			if k.Name == "vfs.file.regmatch" {
				return item.FromUnsigned(1), nil
			}
			return item.FromText(expandMatch(k.Parameter(5, ""), line, at)), nil
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return item.Value{}, fmt.Errorf("%s: a line of the file has over %d KiB", k.Name, maxFileLine>>10)
	}
	if err := lines.Err(); err != nil || k.Name == "vfs.file.regexp" {
		return item.FromText(""), err
	}
	return item.FromUnsigned(0), nil
}

// expandMatch replaces \0 in a template by a regular expression's match, and \1 to \9 by its groups. An empty template
// is the line.
func expandMatch(template, line string, at []int) string {
	if template == "" {
		return line
	}
	var b strings.Builder
	for i := 0; i < len(template); i++ {
		if template[i] != '\\' || i+1 == len(template) || template[i+1] < '0' || template[i+1] > '9' {
			b.WriteByte(template[i])
			continue
		}
		i++
		if n := 2 * int(template[i]-'0'); n < len(at) && at[n] >= 0 {
			b.WriteString(line[at[n]:at[n+1]])
		}
	}
	return b.String()
}
