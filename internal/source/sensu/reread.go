package sensu

import (
	"bytes"
	"os"
)

// reread is a file that the housekeeper reads again.
type reread struct {
	path string
	told string // what was wrong when it was read last
	last []byte // what it held then
}

// again hands over what the file holds where that is not what holds now, and was there twice in turn:
// nobody is writing it. The error is one that nobody was told of yet.
func (f *reread) again(now []byte, take func(text []byte) error) error {
	text, err := os.ReadFile(f.path)
	twice := bytes.Equal(text, f.last)
	if !twice {
		f.told = "" // somebody mended it, who wants to know whether that was enough
	}
	f.last = text
	switch {
	case err != nil:
	case bytes.Equal(text, now):
	case !twice:
		return nil
	default:
		err = take(text)
	}
	if err == nil {
		f.told = ""
		return nil
	}
	if f.told == err.Error() {
		return nil
	}
	f.told = err.Error()
	return err
}
