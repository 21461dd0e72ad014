package asset

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// stallTimeout is the longest time without a byte before a download is cancelled.
const stallTimeout = 30 * time.Second

// downloadArchive downloads the missing rest of a partly downloaded archive into the file f.
func (c *Cache) downloadArchive(ctx context.Context, sum Sum, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := time.AfterFunc(stallTimeout, cancel)
	defer watch.Stop()
	source, err := c.cfg.Fetch(ctx, sum, info.Size())
	if err != nil {
		return err
	}
	defer source.Body.Close()
	if source.From > info.Size() {
		return errors.New("the server sent another part of the archive than requested")
	}
	if err := f.Truncate(source.From); err != nil {
		return err
	}
	if _, err := f.Seek(source.From, io.SeekStart); err != nil {
		return err
	}
	at, buffer := source.From, make([]byte, 64<<10)
	for {
		n, err := source.Body.Read(buffer)
		watch.Reset(stallTimeout)
		if at += int64(n); at > model.MaxAssetBytes {
			_ = f.Truncate(0)
			return invalidArchive{fmt.Errorf("download the archive: the server sent more than %s, the limit", model.Size(model.MaxAssetBytes))}
		}
		if _, err := c.freeSpace(); err != nil {
			return err
		}
		if _, err := f.Write(buffer[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the download stopped after %s and continues from there: %w", model.Size(at), err)
		}
	}
}

// verifySum computes the SHA-512 of a file, and returns an error if the hash is unexpected.
func verifySum(f *os.File, sum Sum) (size int64, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	hash := sha512.New()
	size, err = io.Copy(hash, f)
	if err != nil {
		return 0, err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); !strings.EqualFold(got, sum) {
		return 0, fmt.Errorf("the download is not the archive: its SHA-512 is %s…, not %s…; the agent discards it and downloads it again", got[:12], sum[:12])
	}
	return size, nil
}

// listHead starts the list of a folder: one line for each file, folder and link in it, so that changes
// are found without reading the files. A list of another version is ignored.
const listHead = "muster asset list 1\n"

// maxListed is the longest list in bytes that is read.
const maxListed = 64 << 20

// fileListLine returns the line for one file, link or folder in an archive's file list. Of a folder it has only the
// name: a program may add files, such as compiled ones.
func fileListLine(name string, info fs.FileInfo) string {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return fmt.Sprintf("d %q\n", name)
	case mode.IsRegular():
		return fmt.Sprintf("f %q %d %o %d\n", name, info.Size(), mode.Perm(), info.ModTime().UnixNano())
	default:
		return fmt.Sprintf("l %q\n", name)
	}
}

// writeList writes the file list of an extracted archive, with each file's size, mode and time.
func writeList(dir string) error {
	var b bytes.Buffer
	b.WriteString(listHead)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			b.WriteString(fileListLine(name, info))
		}
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(dir+listSuffix, b.Bytes(), 0o600)
}

// findChangedFile describes the first file that differs from the archive's file list, or returns "" if none differs.
// A folder without a list is not checked.
func findChangedFile(dir string) (difference string, err error) {
	if info, err := os.Stat(dir + listSuffix); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() > maxListed {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return "the asset's folder is missing", nil
		}
		return "", nil
	}
	data, err := os.ReadFile(dir + listSuffix)
	list, ok := bytes.CutPrefix(data, []byte(listHead))
	if err != nil || !ok {
		return "", err
	}
	for line := range bytes.Lines(list) {
		var kind byte
		var name string
		if _, err := fmt.Sscanf(string(line), "%c %q", &kind, &name); err != nil || !filepath.IsLocal(name) {
			return "cannot read the asset's list of files", nil
		}
		is, err := os.Lstat(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Sprintf("%q is missing", name), nil
		case err != nil:
			return "", err
		case fileListLine(name, is) != string(line):
			return fmt.Sprintf("%q has changed", name), nil
		}
	}
	return "", nil
}

// verifyFolder checks periodically that the extracted files of an archive are unchanged, and downloads a changed
// archive again.
func (c *Cache) verifyFolder(sum Sum) {
	if c.cfg.Look <= 0 {
		return
	}
	c.mu.Lock()
	e := c.archives[sum]
	if e == nil || !e.ready || time.Since(e.verifiedAt) < c.cfg.Look {
		c.mu.Unlock()
		return
	}
	e.verifiedAt = time.Now()
	c.mu.Unlock()
	difference, err := findChangedFile(c.archivePath(sum))
	if err != nil {
		difference = err.Error()
	}
	if difference == "" {
		return
	}
	c.cfg.Log.Warn("asset is damaged; the agent extracts the archive again", "sha512", sum[:12], "what", difference)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.archives[sum] == e && e.ready {
		e.ready, e.wanted, e.missingReason, e.retryWait, e.nextAttempt = false, true, "", 0, time.Now()
		pause.Wake(c.wake)
	}
}
