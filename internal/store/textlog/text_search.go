package textlog

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// Query says which rows to find, by node, item, time and words. Fields that are zero select all.
type Query struct {
	Node      model.NodeID
	Partition model.Partition // of Node
	Accepts   func(*Row) bool // decides about rows that match all else
	Key       string          // of the item
	Since     int64           // Unix ns, inclusive
	Until     int64           // Unix ns, inclusive
	Words     string          // each of them is in the text as a whole word, in upper or lower case
	Contains  string          // is in the text, in upper or lower case
	Limit     int             // the newest so many rows, of at most maxResult bytes
}

// maxResult limits the texts of a result, in bytes.
const maxResult = 16 << 20

// phrase is a search text in lower case that every matching row must contain.
type phrase struct {
	lower      []byte
	wholeWords bool // it begins and ends where words do
}

// matcher collects the newest rows that match a Query.
type matcher struct {
	Query
	words   *wordClass
	phrases []phrase
	hashes  []uint64   // that the filter of a block with matching rows has
	rows    []foundRow // that match, at most twice as many as Limit
	oldest  int64      // time of the oldest row of the newest Limit ones; earlier ones do not count. Zero: there are fewer
	bytes   int        // of the texts of rows
	more    bool       // rows beyond Limit match, or may
	body    []byte     // memory for a block
	lower   []byte     // likewise, for its texts in lower case
}

// newMatcher returns an empty collector of rows for a query.
func (s *Store) newMatcher(q *Query) *matcher {
	m := &matcher{Query: *q, words: s.words}
	if q.Until == 0 {
		m.Until = int64(^uint64(0) >> 1)
	}
	if s.opts.Retention > 0 {
		m.Since = max(m.Since, s.opts.Now().Add(-s.opts.Retention).UnixNano())
	}
	for _, word := range strings.Fields(q.Words) {
		m.phrases = append(m.phrases, phrase{s.words.lowerCase(nil, []byte(word)), true})
		m.hashes = s.words.appendWordHashes(m.hashes, []byte(word))
	}
	if q.Contains != "" {
		m.phrases = append(m.phrases, phrase{s.words.lowerCase(nil, []byte(q.Contains)), false})
		m.hashes = append(m.hashes, s.words.innerWords([]byte(q.Contains))...)
	}
	slices.SortStableFunc(m.phrases, func(a, b phrase) int { return cmp.Compare(len(b.lower), len(a.lower)) }) // the longest is the rarest
	if q.Node != 0 {
		m.hashes = append(m.hashes, streamHash(q.Node, q.Key))
	}
	return m
}

// lowerCase appends a text to dst, with ASCII letters in lower case.
func (t *wordClass) lowerCase(dst, text []byte) []byte {
	from := len(dst)
	dst = append(dst, text...)
	for i, c := range dst[from:] {
		if lower := t[c]; lower != 0 {
			dst[from+i] = lower
		}
	}
	return dst
}

// innerWords returns the hashes of a search text's words, except possibly incomplete words at either end. Every
// row that contains the text has these as whole words.
func (t *wordClass) innerWords(text []byte) []uint64 {
	isEnd := func(r byte) bool { return t[r] == 0 }
	first, last := slices.IndexFunc(text, isEnd), len(text)
	for last > 0 && !isEnd(text[last-1]) {
		last--
	}
	if first < 0 || first >= last {
		return nil
	}
	return t.appendWordHashes(nil, text[first:last])
}

// isWhole reports whether text[from:to] begins and ends at word boundaries.
func (t *wordClass) isWhole(text []byte, from, to int) bool {
	return (from == 0 || t[text[from-1]] == 0 || t[text[from]] == 0) && (to == len(text) || t[text[to]] == 0 || t[text[to-1]] == 0)
}

// contains reports whether a text in lower case contains a phrase. If the phrase requires that, it is found as whole
// words only.
func (t *wordClass) contains(text []byte, p *phrase) bool {
	for from := 0; ; {
		i := bytes.Index(text[from:], p.lower)
		if i < 0 {
			return false
		}
		if from += i; !p.wholeWords || t.isWhole(text, from, from+len(p.lower)) {
			return true
		}
		from++
	}
}

// mayMatchBlock reports whether the time range of a block overlaps the times that the query still needs.
func (m *matcher) mayMatchBlock(begun, ended int64) bool {
	return begun <= m.Until && ended >= m.Since && ended >= m.oldest
}

// accepts reports whether time, node and item of a row match the query. The method matches compares the text.
func (m *matcher) accepts(r *Row) bool {
	return r.At >= max(m.Since, m.oldest) && r.At <= m.Until && (m.Node == 0 || r.Node == m.Node) && (m.Key == "" || r.Key == m.Key) && (m.Accepts == nil || m.Accepts(r))
}

// foundRow is a row that a query has found, with its block and its index in the block. The place is the block and the
// index in the block, which order rows of equal times.
type foundRow struct {
	Row
	block int64
	index int
}

// compare orders two found rows by time, then by block and index in the block.
func (r foundRow) compare(other foundRow) int {
	return cmp.Or(cmp.Compare(r.At, other.At), cmp.Compare(r.block, other.block), cmp.Compare(r.index, other.index))
}

// add adds a copy of a row to the collected rows.
func (m *matcher) add(r foundRow) {
	r.Text = strings.Clone(r.Text)
	m.bytes += len(r.Text)
	if m.rows = append(m.rows, r); len(m.rows) >= 2*m.Limit || m.bytes >= 2*maxResult {
		m.trim()
	}
}

// trim sorts the found rows, newest first, and drops rows beyond the result limits of the query. They are Limit
// and maxResult.
func (m *matcher) trim() {
	slices.SortFunc(m.rows, func(a, b foundRow) int { return b.compare(a) })
	kept := 0
	m.bytes = 0
	for kept < min(len(m.rows), m.Limit) && (kept == 0 || m.bytes+len(m.rows[kept].Text) <= maxResult) {
		m.bytes += len(m.rows[kept].Text)
		kept++
	}
	if kept == m.Limit || kept < len(m.rows) {
		m.oldest = m.rows[kept-1].At
	}
	if kept < len(m.rows) {
		m.more = true
		clear(m.rows[kept:])
		m.rows = m.rows[:kept]
	}
}

// scan collects the matching rows of a block. The longest phrase is searched in all texts at once.
func (m *matcher) scan(id int64, d *rowDecoder) error {
	hit := 0
	if len(m.phrases) > 0 {
		m.lower = m.words.lowerCase(m.lower[:0], d.texts)
		hit = -1
	}
	for index := 0; d.next(); index++ {
		from, to := d.offset, d.offset+len(d.row.Text)
		if len(m.phrases) > 0 {
			if hit < from {
				if hit = bytes.Index(m.lower[from:], m.phrases[0].lower); hit < 0 {
					hit = len(m.lower)
				} else {
					hit += from
				}
			}
			if hit >= to || !m.matches(m.lower[from:to]) {
				continue
			}
		}
		if m.accepts(&d.row) {
			m.add(foundRow{d.row, id, index})
		}
	}
	return d.err()
}

// matches reports whether a text in lower case contains all phrases of the query.
func (m *matcher) matches(text []byte) bool {
	for i := range m.phrases {
		if !m.words.contains(text, &m.phrases[i]) {
			return false
		}
	}
	return true
}

// Find returns the newest rows that a query selects, in the order of time. more reports that older ones may match,
// too.
func (s *Store) Find(ctx context.Context, q *Query) (rows []Row, more bool, err error) {
	m := s.newMatcher(q)
	first, last := model.Partition(0), model.Partition(model.Partitions-1)
	if q.Node != 0 {
		first, last = q.Partition, q.Partition
	}
	seen := map[int64]bool{} // blocks in memory: the database may get them meanwhile
	for id := int(first); id <= int(last); id++ {
		for _, b := range s.partitions[id].blocksInMemory() {
			seen[b.id] = true
			if m.mayMatchBlock(b.rows.earliest, b.rows.ended) {
				if err := m.scan(b.id, &rowDecoder{heads: b.rows.heads, texts: b.rows.texts}); err != nil {
					panic("BUG: rows in memory are damaged")
				}
			}
		}
	}
	if err := s.findStored(ctx, m, int64(first)<<idShift, (int64(last)+1)<<idShift-1, seen); err != nil {
		return nil, false, err
	}
	m.trim()
	slices.Reverse(m.rows)
	rows = make([]Row, len(m.rows))
	for i := range m.rows {
		rows[i] = m.rows[i].Row
	}
	return rows, m.more, nil
}

// blocksInMemory returns the blocks of a partition not yet in the database, including the open block.
func (p *partitionRows) blocksInMemory() []*block {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.full[:len(p.full):len(p.full)]
	if p.open.rows > 0 {
		list = append(list, p.openBlock())
	}
	return list
}

// storedBlock has a database block's id, and the earliest and latest time of the block's rows. They are the
// earliest and the latest time.
type storedBlock struct {
	id, earliest, ended int64
}

// filtersAtOnce is the number of Bloom filters that one statement reads.
const filtersAtOnce = 64

// findStored searches the blocks in the database for rows that match a query. It reads the newest blocks first, and
// ends where the others are older than the result.
func (s *Store) findStored(ctx context.Context, m *matcher, low, high int64, seen map[int64]bool) error {
	list, err := sqldb.List(ctx, s.db, "blocks of texts", func(scan sqldb.Scan) (b storedBlock, err error) {
		err = scan(&b.id, &b.earliest, &b.ended)
		return b, err
	}, `SELECT id, begun, ended FROM text_blocks WHERE id >= ? AND id <= ? AND begun <= ? AND ended >= ?`, low, high, m.Until, m.Since)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(b storedBlock) bool { return seen[b.id] })
	slices.SortFunc(list, func(a, b storedBlock) int { return cmp.Compare(b.ended, a.ended) })
	for part := range slices.Chunk(list, filtersAtOnce) {
		if part = s.overlappingBlocks(m, part); len(part) == 0 {
			m.more = true
			return nil
		}
		if part, err = s.applyBloomFilters(ctx, m, part); err != nil {
			return err
		}
		for i := range part {
			if err := s.scanStored(ctx, m, &part[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// overlappingBlocks returns the given blocks that have rows within the time range of the query.
func (s *Store) overlappingBlocks(m *matcher, list []storedBlock) []storedBlock {
	return slices.DeleteFunc(list, func(b storedBlock) bool { return !m.mayMatchBlock(b.earliest, b.ended) })
}

// applyBloomFilters drops blocks that cannot contain the words of a query, by the blocks' Bloom filters.
func (s *Store) applyBloomFilters(ctx context.Context, m *matcher, list []storedBlock) ([]storedBlock, error) {
	if len(m.hashes) == 0 {
		return list, nil
	}
	var w sqldb.Where
	ids := make([]int64, len(list))
	for i := range list {
		ids[i] = list[i].id
	}
	sqldb.AndIn(&w, "id", ids)
	var buffer sql.RawBytes
	passed, err := sqldb.List(ctx, s.db, "filters of texts", func(scan sqldb.Scan) (id int64, err error) {
		if err = scan(&id, &buffer); err == nil && !mayContain(buffer, m.hashes) {
			id = 0
		}
		return id, err
	}, `SELECT id, filter FROM text_blocks WHERE `+w.SQL(""), w.Args...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(b storedBlock) bool { return !slices.Contains(passed, b.id) }), nil
}

// scanStored reads one block from the database, and collects the rows that match a query. A block that cannot be read
// is counted and left out.
func (s *Store) scanStored(ctx context.Context, m *matcher, b *storedBlock) error {
	if !m.mayMatchBlock(b.earliest, b.ended) {
		m.more = true
		return nil
	}
	stored, err := sqldb.List(ctx, s.db, "a block of texts", sqldb.ScanColumn[[]byte], `SELECT body FROM text_blocks WHERE id = ?`, b.id)
	if err != nil || len(stored) == 0 { // removed meanwhile
		return err
	}
	if m.body, err = s.compression.decompressBody(stored[0], m.body); err == nil {
		var d *rowDecoder
		if d, err = newRowDecoder(m.body); err == nil {
			err = m.scan(b.id, d)
		}
	}
	if err != nil {
		s.counts.damaged.Add(1)
		s.opts.Logger.Error("a block of texts cannot be read and is left out", "database", s.db.Name(), "block", b.id, "err", err)
	}
	return nil
}
