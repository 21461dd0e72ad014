package asset

import (
	"crypto/sha512"
	"errors"
	"io"
	"os"

	"github.com/muster-fleet/muster/internal/model"
)

// Check reads an archive and holds it to its sum. One that is damaged is from then on as if it
// were not here, so that it is uploaded or fetched again; its file stays until then, or until
// no Asset names it.
func (s *Store) Check(sum Sum) error {
	s.mu.Lock()
	file := s.archives[sum].file
	s.mu.Unlock()
	f, err := s.Open(sum)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return s.damage(sum, file, "its file is gone")
		}
		return err
	}
	defer f.Close()
	hash := sha512.New()
	if _, err := io.Copy(hash, f); err != nil {
		return model.Errorf(model.Unavailable, "the server cannot read the archive %s: %w", Short(sum), err)
	}
	if got := Sum(hash.Sum(nil)); got != sum {
		return s.damage(sum, file, "its SHA-512 is "+Short(got))
	}
	return nil
}

// damage notes that an archive is no good, and says so. Another file may have come meanwhile.
func (s *Store) damage(sum Sum, file int, what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.archives[sum]; ok && k.file == file {
		k.damaged = what
		s.archives[sum] = k
	}
	return damaged(sum, what)
}

func damaged(sum Sum, what string) error {
	return model.Errorf(model.NotFound, "what the server has of the archive %s is damaged: %s", Short(sum), what).WithHint("muster asset add NAME FILE")
}

// Damaged returns the damage that is known of an archive; nil: none is.
func (s *Store) Damaged(sum Sum) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.archives[sum]; k.damaged != "" {
		return damaged(sum, k.damaged)
	}
	return nil
}
