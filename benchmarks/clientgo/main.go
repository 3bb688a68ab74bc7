// Command clientgo watches one resource's metadata like a Go controller, and prints the CPU cost per event.
//
//	clientgo --kubeconfig F --resource configmaps --events 20000            the existing objects, then live events
//	clientgo --kubeconfig F --resource configmaps --events 5000 --live      live events only
//	clientgo --kubeconfig F --resource configmaps --informer                an informer, until it is killed
//
// It prints {"watching":true} when the watch is open, and after the last event one line
// {"events":…,"cpu_seconds":…,"wall_seconds":…,"cpu_us_per_event":…}: user and system time of the whole process since
// just before the request of the watch (burst), or since the first event (live). An informer prints a line
// {"revision":…,"at":…} for each event, with the Unix time at which its handler got it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

type usage struct {
	cpu  time.Duration
	wall time.Time
}

type report struct {
	Events        int     `json:"events"`
	CPUSeconds    float64 `json:"cpu_seconds"`
	WallSeconds   float64 `json:"wall_seconds"`
	CPUUsPerEvent float64 `json:"cpu_us_per_event"`
}

type event struct {
	Revision string  `json:"revision"`
	At       float64 `json:"at"`
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of a kubeconfig")
	var gvr schema.GroupVersionResource
	flag.StringVar(&gvr.Group, "group", "", "API group; empty for the core")
	flag.StringVar(&gvr.Version, "version", "v1", "API version")
	flag.StringVar(&gvr.Resource, "resource", "configmaps", "resource, plural")
	namespace := flag.String("namespace", "", "namespace; empty for all")
	events := flag.Int("events", 1, "number of events to count")
	live := flag.Bool("live", false, "skip the existing objects")
	informer := flag.Bool("informer", false, "run an informer instead, and print each event")
	flag.Parse()

	if *informer {
		if err := inform(*kubeconfig, gvr, *namespace); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(*kubeconfig, gvr, *namespace, *events, *live); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func connect(kubeconfig string) (metadata.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	return metadata.NewForConfig(config)
}

// inform runs an informer with client-go's defaults.
func inform(kubeconfig string, gvr schema.GroupVersionResource, namespace string) error {
	client, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	output := json.NewEncoder(os.Stdout)
	seen := func(object any) {
		if found, ok := object.(metav1.Object); ok {
			_ = output.Encode(event{found.GetResourceVersion(), float64(time.Now().UnixNano()) / 1e9})
		}
	}
	informer := metadatainformer.NewFilteredMetadataInformer(client, gvr, namespace, 0, cache.Indexers{}, nil).Informer()
	handler := cache.ResourceEventHandlerFuncs{AddFunc: seen, UpdateFunc: func(_, object any) { seen(object) }}
	if _, err := informer.AddEventHandler(handler); err != nil {
		return err
	}
	informer.RunWithContext(context.Background())
	return nil
}

func run(kubeconfig string, gvr schema.GroupVersionResource, namespace string, events int, live bool) error {
	client, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	resource := client.Resource(gvr).Namespace(namespace)
	ctx := context.Background()

	options := metav1.ListOptions{AllowWatchBookmarks: true, ResourceVersion: "0"}
	if live {
		none, err := resource.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=absent--"})
		if err != nil {
			return err
		}
		options.ResourceVersion = none.ResourceVersion
	}
	start := now()
	stream, err := resource.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer stream.Stop()
	fmt.Println(`{"watching":true}`)
	if live {
		if err := count(stream, 1); err != nil {
			return err
		}
		start = now()
	}
	if err := count(stream, events); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(since(start, events))
}

// count reads events until it has seen n changes of objects. Bookmarks do not count.
func count(stream watch.Interface, n int) error {
	for event := range stream.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified, watch.Deleted:
			n--
		case watch.Error:
			return fmt.Errorf("the watch ended with %v", event.Object)
		}
		if n == 0 {
			return nil
		}
	}
	return fmt.Errorf("the watch closed %d events too early", n)
}

func now() usage {
	var spent syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &spent); err != nil {
		panic(err) // cannot fail for RUSAGE_SELF
	}
	return usage{time.Duration(spent.Utime.Nano() + spent.Stime.Nano()), time.Now()}
}

func since(start usage, events int) report {
	end := now()
	cpu, wall := (end.cpu - start.cpu).Seconds(), end.wall.Sub(start.wall).Seconds()
	return report{events, cpu, wall, 1e6 * cpu / float64(events)}
}
