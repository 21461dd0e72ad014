package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// fileBlock is the policy method that requires a block of lines between two marker lines in a file.
type fileBlock struct {
	*model.FileBlockMethod
	newMode fs.FileMode
}

// markerLines returns the marker lines before and after the block.
func (m *fileBlock) markerLines() (begin, end string) {
	comment := cmp.Or(m.Comment, "#")
	return comment + " BEGIN " + m.Name, comment + " END " + m.Name
}

// findMarkers returns the lines of the file, with the indexes of the block's first and last marker line. begin
// is -1 if the file has no such block. A block without an end is an error: nobody knows which lines belong to
// it.
func (m *fileBlock) findMarkers() (f textFile, begin, end int, err error) {
	first, last := m.markerLines()
	if strings.ContainsAny(first, "\r\n") {
		return f, 0, 0, fmt.Errorf("name or comment of the block in %s has a line break", m.Path)
	}
	if f, err = readLines(m.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f, 0, 0, err
	}
	if begin = slices.Index(f.lines, first); begin < 0 {
		return f, -1, -1, nil
	}
	length := slices.Index(f.lines[begin:], last)
	if length < 0 {
		return f, 0, 0, fmt.Errorf("%s has the first line %q of the block, but no last line %q after it: add the last line", m.Path, first, last)
	}
	return f, begin, begin + length, nil
}

// content returns the declared lines of the block.
func (m *fileBlock) content() []string { return splitLines([]byte(m.Content)) }

// check compares the block in the file with the declared content.
func (m *fileBlock) check(context.Context) (string, error) {
	f, begin, end, err := m.findMarkers()
	switch {
	case err != nil:
		return "", err
	case m.Absent && begin >= 0:
		return fmt.Sprintf("%s has the block %s", m.Path, m.Name), nil
	case m.Absent:
		return "", nil
	case begin < 0:
		return fmt.Sprintf("%s has no block %s", m.Path, m.Name), nil
	case !slices.Equal(f.lines[begin+1:end], m.content()):
		return fmt.Sprintf("%s: block %s has other lines", m.Path, m.Name), nil
	}
	return "", nil
}

// apply replaces, appends or removes the block together with its marker lines.
func (m *fileBlock) apply(context.Context) error {
	f, begin, end, err := m.findMarkers()
	if err != nil {
		return err
	}
	first, last := m.markerLines()
	var block []string
	if !m.Absent {
		block = slices.Concat([]string{first}, m.content(), []string{last})
	}
	if begin < 0 {
		begin, end = len(f.lines), len(f.lines)-1
	}
	if slices.ContainsFunc(m.content(), func(line string) bool { return line == first || line == last }) {
		return fmt.Errorf("the content contains a line that marks the start or end of the block: %s", strings.Join([]string{first, last}, ", "))
	}
	return writeAtomically(m.Path, f.content(slices.Concat(f.lines[:begin], block, f.lines[end+1:])), m.newMode)
}
