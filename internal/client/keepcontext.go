package client

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// KeepContext copies a context file, in which c is, before another server's takes its place:
// beside it, with the name of c's server behind its own. The file itself stays, so that there is
// one whatever happens next. A copy of something else is never written over; the next one
// has a number.
func KeepContext(path string, c Context) (aside string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("keep the context file of %s: %w", c.Server, err)
	}
	base := path + "." + asFileName(c.Server)
	for n := 1; ; n++ {
		if aside = base; n > 1 {
			aside += "." + strconv.Itoa(n)
		}
		err := writeNew(aside, data)
		if err == nil {
			return aside, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", model.Errorf(model.Invalid, "keep the context file of %s: %w", c.Server, err).
				WithHint("name another context file for this server: --context-file FILE")
		}
		if was, err := os.ReadFile(aside); err == nil && bytes.Equal(was, data) {
			return aside, nil
		}
	}
}

// KeptContexts are the files beside path that KeepContext wrote, or may have, of a server's contexts.
func KeptContexts(path, server string) (list []string) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil
	}
	base := filepath.Base(path) + "." + asFileName(server)
	for _, e := range entries {
		if e.Name() == base || strings.HasPrefix(e.Name(), base+".") {
			list = append(list, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	return list
}

// asFileName is an address as a part of a file's name.
func asFileName(server string) string {
	if server = strings.TrimRight(strings.TrimPrefix(server, "https://"), "/"); server == "" {
		server = "earlier"
	}
	return strings.Map(func(r rune) rune {
		if r < 128 && (r == '.' || r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') {
			return r
		}
		return '-'
	}, server[:min(len(server), 100)])
}

// writeNew writes a file that only its owner can read and that was not there.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(path)
	}
	return err
}
