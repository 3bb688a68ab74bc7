package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	podsName  = "pods"
	podsPace  = time.Millisecond // between two looks at which pods are due
	separator = "@@"             // around the names of what differs between pods
)

// podStep is one change in the life of a pod: when it is due after the pod was created, and its line in a watch, of
// whole objects or of metadata. In a line, @@uid@@ and @@revision@@ stand for those of the pod.
type podStep struct {
	After    float64 `json:"after"`
	Whole    string  `json:"whole"`
	Metadata string  `json:"metadata"`
}

func readPodSteps(path string) (steps []podStep, err error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &steps)
	}
	return steps, err
}

// podLine is the line of a step, divided at what differs between pods.
type podLine [][]byte

func newPodLine(text string) podLine {
	return bytes.Split([]byte(text), []byte(separator))
}

// appendTo appends the line of one pod.
func (l podLine) appendTo(lines []byte, uid, revision int64) []byte {
	for at, part := range l {
		switch {
		case at%2 == 0:
			lines = append(lines, part...)
		case string(part) == "uid":
			lines = strconv.AppendInt(lines, uid, 10)
		default:
			lines = strconv.AppendInt(lines, revision, 10)
		}
	}
	return lines
}

// podStarts lets pods start at a rate, and commits every step of each.
type podStarts struct {
	storage *storage
	after   []time.Duration

	mu      sync.Mutex
	rate    float64
	changed time.Time
	started int64 // since the rate changed
}

// pod is a pod that has steps ahead.
type pod struct {
	uid     int64
	created time.Time
}

func newPodStarts(s *storage, steps []podStep) *podStarts {
	p := &podStarts{storage: s}
	for _, step := range steps {
		p.after = append(p.after, time.Duration(step.After*float64(time.Second)))
	}
	if len(steps) > 0 {
		go p.run()
	}
	return p
}

// setRate lets so many pods start per second from now on.
func (p *podStarts) setRate(rate float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate, p.changed, p.started = rate, time.Now(), 0
}

// due returns how many pods start now.
func (p *podStarts) due() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	due := int64(p.rate*time.Since(p.changed).Seconds()) - p.started
	p.started += due
	return due
}

func (p *podStarts) run() {
	waiting := make([][]pod, len(p.after)) // for each step, in the order in which they are due
	uid := int64(firstRevision)
	for range time.Tick(podsPace) {
		now := time.Now()
		for range p.due() {
			uid++
			waiting[0] = append(waiting[0], pod{uid, now})
		}
		for step, after := range p.after {
			ready := 0
			for ready < len(waiting[step]) && now.Sub(waiting[step][ready].created) >= after {
				p.storage.commitPod(waiting[step][ready].uid, step)
				ready++
			}
			if step+1 < len(waiting) {
				waiting[step+1] = append(waiting[step+1], waiting[step][:ready]...)
			}
			waiting[step] = waiting[step][ready:]
		}
	}
}
