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

// BackUpContext copies the context file at path, which holds c, before the context of another server
// replaces it. The copy stands beside it and has the name of c's server appended. It never
// overwrites a different copy: the next one gets a number. The file at path stays.
func BackUpContext(path string, c Context) (backup string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("back up the context file of %s: %w", c.Server, err)
	}
	base := path + "." + fileNameOf(c.Server)
	for n := 1; ; n++ {
		if backup = base; n > 1 {
			backup += "." + strconv.Itoa(n)
		}
		err := createFile(backup, data)
		if err == nil {
			return backup, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", model.Errorf(model.Invalid, "back up the context file of %s: %w", c.Server, err).
				WithHint("use another context file for this server: --context-file FILE")
		}
		if old, err := os.ReadFile(backup); err == nil && bytes.Equal(old, data) {
			return backup, nil
		}
	}
}

// ContextBackups returns the files beside path that may be backups of a server's contexts.
func ContextBackups(path, server string) (list []string) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil
	}
	base := filepath.Base(path) + "." + fileNameOf(server)
	for _, e := range entries {
		if e.Name() == base || strings.HasPrefix(e.Name(), base+".") {
			list = append(list, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	return list
}

// fileNameOf turns an address into a part of a file name.
func fileNameOf(server string) string {
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

// createFile writes a new file that only its owner can read; an existing file is an error.
func createFile(path string, data []byte) error {
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
