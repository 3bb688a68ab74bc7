package main

import (
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

const firstRevision = 10_000_000

// storage is the state of all apiservers: one sequence of revisions, and the open watches.
type storage struct {
	mu        sync.Mutex
	revision  int64
	resources []*resource
	byName    map[string]*resource
	pods      *resource
	podSteps  []podLines
	committed int64
	delays    *delays
	cutAt     time.Time
	missing   map[watchKey]bool
	back      []float64 // seconds from the cut until each watch was open again
}

// podLines are the lines of a step in a watch of whole objects, and in one of metadata.
type podLines struct{ whole, metadata podLine }

// resource is one kind of objects. Its history has all its revisions; pods have none.
type resource struct {
	name    string
	history []int64
	watches map[*watch]bool
}

// watchKey identifies the watch of a resource at an apiserver.
type watchKey struct {
	apiserver int
	resource  string
}

func newStorage(resources int, steps []podStep) *storage {
	s := &storage{revision: firstRevision, byName: map[string]*resource{}, delays: newDelays()}
	for number := range resources {
		r := &resource{name: resourceName(number), watches: map[*watch]bool{}}
		s.resources = append(s.resources, r)
		s.byName[r.name] = r
	}
	if len(steps) > 0 {
		s.pods = &resource{name: podsName, watches: map[*watch]bool{}}
		s.byName[podsName] = s.pods
	}
	for _, step := range steps {
		s.podSteps = append(s.podSteps, podLines{newPodLine(step.Whole), newPodLine(step.Metadata)})
	}
	return s
}

// commit stores the next event of a resource, and gives it to all watches of the resource.
func (s *storage) commit(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	s.committed++
	r := s.resources[number]
	r.history = append(r.history, s.revision)
	now := time.Now()
	for w := range r.watches {
		w.add(now, func(lines []byte) []byte { return appendEvent(lines, s.revision) })
	}
}

// commitPod stores a step of a pod, and gives it to all watches of pods.
func (s *storage) commitPod(uid int64, step int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	s.committed++
	now := time.Now()
	for w := range s.pods.watches {
		line := s.podSteps[step].metadata
		if w.isWhole {
			line = s.podSteps[step].whole
		}
		w.add(now, func(lines []byte) []byte { return line.appendTo(lines, uid, s.revision) })
	}
}

// open registers a watch, which first gets the events after a revision; it reports whether the resource exists.
func (s *storage) open(w *watch, after int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.byName[w.key.resource]
	if r == nil {
		return false
	}
	missed := sort.Search(len(r.history), func(at int) bool { return r.history[at] > after })
	for _, revision := range r.history[missed:] {
		w.add(time.Time{}, func(lines []byte) []byte { return appendEvent(lines, revision) })
	}
	r.watches[w] = true
	if s.missing[w.key] {
		delete(s.missing, w.key)
		s.back = append(s.back, time.Since(s.cutAt).Seconds())
	}
	return true
}

func (s *storage) close(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName[w.key.resource].watches, w)
}

// bookmark gives a watch a bookmark of the current revision.
func (s *storage) bookmark(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.addBookmark(s.revision)
}

func (s *storage) current() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// cut resets the connections of all open watches.
func (s *storage) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutAt, s.missing, s.back = time.Now(), map[watchKey]bool{}, nil
	for _, r := range s.resources {
		for w := range r.watches {
			s.missing[w.key] = true
			w.cut()
		}
		clear(r.watches)
	}
}

// statistics are those since the last reset; `delays` are from the commit of an event to its written line.
type statistics struct {
	Revision  int64     `json:"revision"`
	Watches   int       `json:"watches"`
	Committed int64     `json:"committed"`
	Written   int64     `json:"written"`
	Bytes     int64     `json:"bytes"` // of whole objects
	DelayP50  float64   `json:"delay_p50"`
	DelayP99  float64   `json:"delay_p99"`
	DelayMax  float64   `json:"delay_max"`
	Missing   int       `json:"missing"`
	Back      []float64 `json:"back"`
}

func (s *storage) statistics() statistics {
	s.mu.Lock()
	defer s.mu.Unlock()
	watches := 0
	for _, r := range s.byName {
		watches += len(r.watches)
	}
	written, p50, p99, longest := s.delays.summary()
	bytes := s.delays.bytes.Load()
	return statistics{s.revision, watches, s.committed, written, bytes, p50, p99, longest, len(s.missing), s.back}
}

func (s *storage) resetStatistics() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.committed = 0
	s.delays.reset()
}

const (
	delayStep  = 10 * time.Microsecond
	delaySteps = 100_000 // up to a second
)

// delays count how long events took from their commit until they were written.
type delays struct {
	mu      sync.Mutex
	counts  []int64
	total   int64
	longest time.Duration
	bytes   atomic.Int64 // of whole objects that were written
}

func newDelays() *delays {
	return &delays{counts: make([]int64, delaySteps)}
}

func (d *delays) observe(committed []time.Time) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, at := range committed {
		delay := now.Sub(at)
		d.counts[min(int(delay/delayStep), delaySteps-1)]++
		d.total++
		d.longest = max(d.longest, delay)
	}
}

func (d *delays) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.counts)
	d.total, d.longest = 0, 0
	d.bytes.Store(0)
}

// summary returns the number of events, and the median, the P99 and the longest of the delays in seconds.
func (d *delays) summary() (total int64, p50, p99, longest float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total, d.quantile(0.5), d.quantile(0.99), d.longest.Seconds()
}

func (d *delays) quantile(q float64) float64 {
	left := int64(q * float64(d.total))
	for step, count := range d.counts {
		left -= count
		if left < 0 {
			return (time.Duration(step+1) * delayStep).Seconds()
		}
	}
	return 0
}
