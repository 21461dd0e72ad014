package subject

import (
	"context"
	"fmt"
	"io"
	"os"
)

// CopyLog writes the server's log, or the part that its admin listener still has.
func (s *Subject) CopyLog(ctx context.Context, w io.Writer) error {
	if s.Log == "" {
		if s.Admin == "" {
			return nil
		}
		data, err := s.get(ctx, "/debug/log")
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	}
	file, err := os.Open(s.Log)
	if err != nil {
		return fmt.Errorf("read the server's log: %w", err)
	}
	defer file.Close()
	_, err = io.Copy(w, file)
	return err
}
