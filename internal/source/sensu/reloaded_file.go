package sensu

import (
	"bytes"
	"os"
)

// reloadedFile is a file that is read again and again.
type reloadedFile struct {
	path     string
	lastErr  string // reported last; empty: none
	lastRead []byte
}

// reload calls accept with the content of the file if it differs from the one in force and two successive reads agree:
// then it is not being written. It returns each error once.
func (f *reloadedFile) reload(inForce []byte, accept func(text []byte) error) error {
	text, err := os.ReadFile(f.path)
	stable := bytes.Equal(text, f.lastRead)
	if !stable {
		f.lastErr = "" // an operator has edited it and expects an answer
	}
	f.lastRead = text
	switch {
	case err != nil:
	case bytes.Equal(text, inForce):
	case !stable:
		return nil
	default:
		err = accept(text)
	}
	if err == nil {
		f.lastErr = ""
		return nil
	}
	if f.lastErr == err.Error() {
		return nil
	}
	f.lastErr = err.Error()
	return err
}
