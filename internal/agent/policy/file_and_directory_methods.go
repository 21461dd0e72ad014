package policy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Modes of files that a method makes.
const (
	newFileMode   = 0o644
	newSecretMode = 0o600 // with a secret in it
)

// readRegular reads the whole content of a regular file of limited size. It follows links, and refuses other
// things than files, which might block, and large ones.
func readRegular(path string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("the path %q is not absolute", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file, but %s", path, describeFileKind(info))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("the file %s is larger than %s", path, model.Size(maxFile))
	}
	return data, err
}

// describeFileKind returns the kind of a file, such as a folder or a link, as text for messages.
func describeFileKind(info fs.FileInfo) string {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "a special file"
}

// maxLinks bounds the links that lead to a file.
const maxLinks = 40

// followLinks returns the path at the end of a chain of symbolic links. Nothing has to exist at that path.
func followLinks(path string) (string, error) {
	for range maxLinks {
		target, err := os.Readlink(path)
		if err != nil {
			return path, nil
		}
		if !filepath.IsAbs(target) {
			folder, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				return "", err
			}
			target = filepath.Join(folder, target)
		}
		path = target
	}
	return "", fmt.Errorf("more than %d symbolic links lead to %s", maxLinks, path)
}

// writeAtomically replaces the content of a file in one step. After a power cut the file has the old content or the
// new one. Links stay, also a link to a missing file. Mode, owner and attributes of an existing file stay. newMode is
// the mode of a new file; zero: newFileMode.
func writeAtomically(path string, data []byte, newMode fs.FileMode) (err error) {
	if path, err = followLinks(path); err != nil {
		return err
	}
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, ".muster-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	mode := cmp.Or(newMode, newFileMode)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm() | info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)
		if newMode == newSecretMode {
			mode &^= 0o007 // a file that has a secret from now on is not readable by all
		}
		if err := copyOwner(f, info); err != nil {
			return err
		}
		if err := copyAttributes(f, path); err != nil {
			return fmt.Errorf("copy the extended attributes of %s: %w", path, err)
		}
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(folder)
}

// syncFolder syncs the names of the files in a folder to the disk.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// splitLines returns the lines of a text without line feeds.
func splitLines(data []byte) []string {
	if len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// textFile has the lines of a file without line ends.
type textFile struct {
	lines   []string
	lineEnd string // of each line; a file with a carriage return in all line ends keeps them
}

// readLines reads the lines of a file. For a missing file the error is fs.ErrNotExist, and the result has no lines.
func readLines(path string) (textFile, error) {
	data, err := readRegular(path)
	f := textFile{lineEnd: "\n"}
	if n := bytes.Count(data, []byte("\r\n")); n > 0 && n == bytes.Count(data, []byte("\n")) {
		data, f.lineEnd = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), "\r\n"
	}
	f.lines = splitLines(data)
	return f, err
}

// content joins the given lines to a text, with the line ends that the original file has.
func (f *textFile) content(lines []string) []byte {
	if len(lines) == 0 {
		return nil
	}
	return []byte(strings.Join(lines, f.lineEnd) + f.lineEnd)
}

// fileContent is the policy method that requires a file to have exactly the declared content.
type fileContent struct {
	*model.FileContentMethod
	newMode fs.FileMode
	// fetch returns the content of a file in an archive; nil: Content has it.
	fetch func(context.Context) (string, error)
}

// content returns the content that the file must have.
func (m *fileContent) content(ctx context.Context) (string, error) {
	if m.fetch == nil {
		return m.Content, nil
	}
	return m.fetch(ctx)
}

// check compares the file's content with the declared content, and names the first different line.
func (m *fileContent) check(ctx context.Context) (string, error) {
	content, err := m.content(ctx)
	if err != nil {
		return "", err
	}
	data, err := readRegular(m.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m.Path + " does not exist", nil
	case err != nil:
		return "", err
	case string(data) == content:
		return "", nil
	}
	is, want := strings.Split(string(data), "\n"), strings.Split(content, "\n")
	i := 0
	for i < len(is) && i < len(want) && is[i] == want[i] {
		i++
	}
	line := func(of []string) string {
		if i == len(of) {
			return "the end"
		}
		return strconv.Quote(model.Truncate(of[i], 200))
	}
	return fmt.Sprintf("%s: line %d is %s, not %s", m.Path, i+1, line(is), line(want)), nil
}

// apply writes the declared content to the file.
func (m *fileContent) apply(ctx context.Context) error {
	content, err := m.content(ctx)
	if err != nil {
		return err
	}
	return writeAtomically(m.Path, []byte(content), m.newMode)
}

// filePresent is the policy method that requires a file to exist, with any content.
type filePresent struct{ path string }

// check checks that the path is an existing file.
func (m *filePresent) check(context.Context) (string, error) {
	return checkKind(m.path, "a file", fs.FileMode.IsRegular)
}

// apply creates an empty file at the path, or at the missing target of a symbolic link.
func (m *filePresent) apply(context.Context) error {
	path, err := followLinks(m.path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, newFileMode)
	if err != nil {
		return err
	}
	return f.Close()
}

// checkKind checks that a path exists and is of a kind, such as a file or a folder. It follows links.
func checkKind(path, kind string, is func(fs.FileMode) bool) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("the path %q is not absolute", path)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path + " does not exist", nil
	case err != nil:
		return "", err
	case !is(info.Mode()):
		return fmt.Sprintf("%s is %s, not %s", path, describeFileKind(info), kind), nil
	}
	return "", nil
}

// fileAbsent is the policy method that requires a file not to exist.
type fileAbsent struct{ path string }

// check checks that nothing exists at the path.
func (m *fileAbsent) check(context.Context) (string, error) {
	if !filepath.IsAbs(m.path) {
		return "", fmt.Errorf("the path %q is not absolute", m.path)
	}
	info, err := os.Lstat(m.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("%s exists: it is %s", m.path, describeFileKind(info)), nil
}

// apply removes the file, and never a folder.
func (m *fileAbsent) apply(context.Context) error {
	if info, err := os.Lstat(m.path); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder: fileAbsent removes files only", m.path)
	}
	return os.Remove(m.path)
}

// directory is the policy method that requires a folder to exist.
type directory struct{ path string }

// check checks that the path is an existing folder.
func (m *directory) check(context.Context) (string, error) {
	return checkKind(m.path, "a folder", fs.FileMode.IsDir)
}

// apply creates the folder with all missing parent folders.
func (m *directory) apply(context.Context) error { return os.MkdirAll(m.path, 0o755) }

// fileLines is the policy method for lines that a file must contain, or must not contain.
type fileLines struct {
	*model.FileLinesMethod
	newMode fs.FileMode
}

// declared returns the lines that the method's arguments declare, with multi-line texts split into single
// lines. A declared text with line breaks, such as the value of a parameter, is several lines. The file decides
// the line ends.
func (m *fileLines) declared() (lines []string) {
	for _, text := range m.Lines {
		text = strings.ReplaceAll(text, "\r\n", "\n")
		lines = append(lines, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
	}
	return lines
}

// check returns the missing lines, or the forbidden lines, of the file.
func (m *fileLines) check(context.Context) (string, error) {
	f, err := readLines(m.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if m.Absent {
			return "", nil
		}
		return m.Path + " does not exist", nil
	}
	if err != nil {
		return "", err
	}
	var wrong []string
	for _, line := range m.declared() {
		if slices.Contains(f.lines, line) == m.Absent {
			wrong = append(wrong, strconv.Quote(model.Truncate(line, 200)))
		}
	}
	switch {
	case len(wrong) == 0:
		return "", nil
	case m.Absent:
		return m.Path + " has " + model.ListFirst(wrong, 5), nil
	}
	return m.Path + " lacks " + model.ListFirst(wrong, 5), nil
}

// apply appends the missing lines, or removes the lines that the file must not contain.
func (m *fileLines) apply(context.Context) error {
	f, err := readLines(m.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	lines, declared := f.lines, m.declared()
	if m.Absent {
		lines = slices.DeleteFunc(lines, func(line string) bool { return slices.Contains(declared, line) })
	} else {
		for _, line := range declared {
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return writeAtomically(m.Path, f.content(lines), m.newMode)
}

// fileKeyValue is the policy method that requires a file to have one setting, a key with its value.
type fileKeyValue struct {
	*model.FileKeyValueMethod
	newMode fs.FileMode
}

// value returns the value in a line that sets the key. ok is false for any other line.
func (m *fileKeyValue) value(line string) (value string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), strings.TrimSpace(m.Key))
	if !ok {
		return "", false
	}
	separator := strings.TrimSpace(m.separator())
	if separator == "" {
		return strings.TrimSpace(rest), rest == "" || rest[0] == ' ' || rest[0] == '\t'
	}
	value, ok = strings.CutPrefix(strings.TrimSpace(rest), separator)
	return strings.TrimSpace(value), ok
}

// separator returns the text between key and value.
func (m *fileKeyValue) separator() string {
	if m.Separator == "" {
		return "="
	}
	return m.Separator
}

// check compares the value in each line with the key against the declared value. White space around values does not
// count.
func (m *fileKeyValue) check(context.Context) (string, error) {
	if strings.TrimSpace(m.Key) == "" || strings.ContainsAny(m.Key+m.separator()+m.Value, "\r\n") {
		return "", fmt.Errorf("the key of %s is empty, or key, separator or value has a line break", m.Path)
	}
	f, err := readLines(m.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return m.Path + " does not exist", nil
	}
	if err != nil {
		return "", err
	}
	found := false
	for _, line := range f.lines {
		if value, ok := m.value(line); ok {
			if found = true; value != strings.TrimSpace(m.Value) {
				return fmt.Sprintf("%s: %s is %q, not %q", m.Path, m.Key, model.Truncate(value, 200), m.Value), nil
			}
		}
	}
	if !found {
		return fmt.Sprintf("%s has no line with %s", m.Path, m.Key), nil
	}
	return "", nil
}

// apply replaces the lines that set the key, or appends such a line.
func (m *fileKeyValue) apply(context.Context) error {
	f, err := readLines(m.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	lines, found := f.lines, false
	for i, line := range lines {
		if value, ok := m.value(line); ok {
			if found = true; value != strings.TrimSpace(m.Value) {
				lines[i] = m.Key + m.separator() + m.Value
			}
		}
	}
	if !found {
		lines = append(lines, m.Key+m.separator()+m.Value)
	}
	return writeAtomically(m.Path, f.content(lines), m.newMode)
}
