package series

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"

	"github.com/prometheus/prometheus/tsdb"
)

// damagedSuffix is the end of the name of a block that the store could not read. The tsdb ignores such a folder.
const damagedSuffix = ".damaged"

// blockName matches the folder of a block: a ULID.
var blockName = regexp.MustCompile(`^[0-9A-Z]{26}$`)

// moveDamagedBlocks renames the blocks in a folder that cannot be read: the tsdb would refuse to open the folder. A block that the
// file system refuses to read keeps its name, and the tsdb returns the error.
func moveDamagedBlocks(dir string, log *slog.Logger) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if !blockName.MatchString(e.Name()) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		block, damage := tsdb.OpenBlock(log, path, nil, nil)
		if damage == nil {
			err = errors.Join(err, block.Close())
			continue
		}
		if refused := new(fs.PathError); errors.As(damage, &refused) && !errors.Is(damage, fs.ErrNotExist) {
			continue
		}
		err = errors.Join(err, os.Rename(path, path+damagedSuffix))
		if log != nil {
			log.Error("the series store has a damaged block, whose values are missing in queries", "block", path+damagedSuffix, "err", damage)
		}
	}
	return err
}
