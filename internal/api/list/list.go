// Package list filters and pages the lists of the API: by labels (selector), by a condition over
// rows (where), by period, and by limit and page token.
//
// Events and resources have languages of conditions of their own (events/condition.go,
// resources/condition.go). In every other list a condition reads the row as it is in items.
//
// Start reading at Page.
package list

import (
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
)

// SearchTime is how long a condition searches a list before it ends the page. The page may be
// short then, or empty, and have a next one.
const SearchTime = 200 * time.Millisecond

// searchPage is the number of rows that a search reads from a store at a time.
const searchPage = 500

// Cursor is the place of a row in a list of a store, which is sorted by a number (a time in
// nanoseconds, a revision) and then by an id. The zero Cursor is the beginning.
type Cursor struct {
	Number int64
	ID     string
}

// TimeCursor is the place of a row that is sorted by time and then by a number.
func TimeCursor(at time.Time, id int64) Cursor {
	return Cursor{at.UnixNano(), strconv.FormatInt(id, 10)}
}

// Time returns the number of the cursor as a time.
func (c Cursor) Time() time.Time { return time.Unix(0, c.Number) }

// IsZero reports whether the cursor is the beginning.
func (c Cursor) IsZero() bool { return c == Cursor{} }

// IntID returns the id of the cursor as a number; the error of a forged page token where it is none.
func (c Cursor) IntID() (int64, error) {
	if c.ID == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(c.ID, 10, 64)
	if err != nil {
		return 0, view.BadToken()
	}
	return id, nil
}

// cursorOf reads a page token.
func cursorOf(v *view.View, token string) (c Cursor, err error) {
	if token == "" {
		return c, nil
	}
	place, err := v.PagePlace(token)
	if err != nil {
		return c, err
	}
	number, id, ok := strings.Cut(place, ".")
	if c.Number, err = strconv.ParseInt(number, 10, 64); !ok || err != nil {
		return c, view.BadToken()
	}
	c.ID = id
	return c, nil
}

// Rows is a list that a store pages.
type Rows[R any] struct {
	Limit  int     // rows of a page
	After  string  // page token of the request
	Filter *Filter // nil: all rows
	// Read returns at most size rows behind a cursor.
	Read   func(behind Cursor, size int) ([]R, error)
	Cursor func(*R) Cursor
}

// Page reads rows until limit rows match, and returns them as show shows them, with the page
// token of the next page; empty: this page is the last. show also returns the node of the row; 0: none.
func Page[R, Row any](v *view.View, l Rows[R], show func(*R) (model.NodeID, Row)) (rows []Row, next string, err error) {
	at, err := cursorOf(v, l.After)
	if err != nil {
		return nil, "", err
	}
	token := func() string { return v.NextPage(strconv.FormatInt(at.Number, 10) + "." + at.ID) }
	rows = []Row{}
	for began := v.Now(); ; {
		size := l.Limit - len(rows) + 1
		if l.Filter != nil {
			size = max(size, searchPage)
		}
		page, err := l.Read(at, size)
		if err != nil {
			return nil, "", err
		}
		for i := range page {
			if len(rows) == l.Limit {
				return rows, token(), nil
			}
			at = l.Cursor(&page[i])
			node, row := show(&page[i])
			if l.Filter.Match(node, func() any { return &row }) {
				rows = append(rows, row)
			}
		}
		switch {
		case len(page) < size:
			return rows, "", nil
		case l.Filter != nil && v.Now().Sub(began) > SearchTime:
			return rows, token(), nil
		}
	}
}

// Matching returns the rows of a short list that match.
func Matching[R any](v *view.View, in Where, rows []R) ([]R, error) {
	f, err := ByRow(v, in)
	if err != nil || f == nil {
		return rows, err
	}
	matching := []R{}
	for i := range rows {
		if f.Match(0, func() any { return &rows[i] }) {
			matching = append(matching, rows[i])
		}
	}
	return matching, nil
}

// MatchingLabels is Matching for rows that have labels of their own.
func MatchingLabels[R any](v *view.View, in Labelled, rows []R, labels func(*R) map[string]string) ([]R, error) {
	selector, err := directory.ParseSelector(in.Selector)
	if err != nil {
		return nil, err
	}
	matching := []R{}
	for i := range rows {
		if selector.Matches(labels(&rows[i])) {
			matching = append(matching, rows[i])
		}
	}
	return Matching(v, in.Where, matching)
}
