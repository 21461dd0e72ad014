package report

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/muster-fleet/muster/internal/model"
)

// Save writes run.json: the report, and the verdict, objectives and figures that terminal and page show of it. Read ignores these.
func (rep *Report) Save(path string) error {
	data, err := json.Marshal(struct {
		*Report
		Passed     bool               `json:"passed"` // this and what follows is for other programs
		Objectives []Objective        `json:"objectives"`
		Figures    map[string]float64 `json:"figures"`
	}{rep, rep.OK(), rep.Findings().Objectives, rep.Figures()})
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("save report: %w", err)
	}
	_, absent := os.Lstat(path)
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		if absent != nil { // nothing is left that looks like a report
			_ = os.Remove(path)
		}
		return fmt.Errorf("save report: %w", err)
	}
	return nil
}

// Read reads run.json.
func Read(path string) (*Report, error) {
	return ReadFS(os.DirFS(filepath.Dir(path)), filepath.Base(path))
}

// ReadFS reads run.json from a file system.
func ReadFS(dir fs.FS, path string) (*Report, error) {
	data, err := fs.ReadFile(dir, path)
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	rep := &Report{}
	if err := json.Unmarshal(data, rep); err != nil {
		return nil, fmt.Errorf("read report %s: %w", path, err)
	}
	if rep.Schema != Schema || rep.Balance == nil {
		return nil, model.Errorf(model.Invalid, "%s is not a report of %s", path, Schema)
	}
	return rep, nil
}
