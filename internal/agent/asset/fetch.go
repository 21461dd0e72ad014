package asset

import (
	"bytes"
	"context"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// stalled is the longest pause in a download.
const stalled = 30 * time.Second

// fetch downloads the rest of the file.
func (c *Cache) fetch(ctx context.Context, sum Sum, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := time.AfterFunc(stalled, cancel)
	defer watch.Stop()
	source, err := c.cfg.Fetch(ctx, sum, info.Size())
	if err != nil {
		return err
	}
	defer source.Body.Close()
	if source.From > info.Size() {
		return errors.New("the server sends another part of the archive than was asked for")
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
		watch.Reset(stalled)
		if at += int64(n); at > model.MaxAssetBytes {
			_ = f.Truncate(0)
			return bad{fmt.Errorf("what the server sends is larger than %s", model.Size(model.MaxAssetBytes))}
		}
		if _, err := c.room(); err != nil {
			return err
		}
		if _, err := f.Write(buffer[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the archive broke off after %s; it goes on from there: %w", model.Size(at), err)
		}
	}
}

// check verifies the SHA-512 of the file.
func check(f *os.File, sum Sum) (size int64, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	hash := sha512.New()
	size, err = io.Copy(hash, f)
	if err != nil {
		return 0, err
	}
	if got := hash.Sum(nil); !bytes.Equal(got, bytesOf(sum)) {
		return 0, fmt.Errorf("what came is not the archive: its SHA-512 is %x…, not %s…; it is thrown away and fetched again", got[:6], sum[:12])
	}
	return size, nil
}
