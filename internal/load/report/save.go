package report

import (
	"encoding/json"
	"fmt"
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
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	return decode(path, data)
}

// decode decodes a report.
func decode(path string, data []byte) (*Report, error) {
	rep := &Report{}
	if err := json.Unmarshal(data, rep); err != nil {
		return nil, fmt.Errorf("read report %s: %w", path, err)
	}
	if rep.Schema != Schema || rep.Balance == nil {
		return nil, model.Errorf(model.Invalid, "%s is not a report of %s", path, Schema)
	}
	return rep, nil
}
