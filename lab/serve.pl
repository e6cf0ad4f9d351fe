# Serves the files of a folder by HTTP, where there is no python3. usage: perl serve.pl PORT FOLDER
use strict;
use warnings;
use Socket qw(AF_INET6 IPPROTO_IPV6 IPV6_V6ONLY SOCK_STREAM SOL_SOCKET SO_REUSEADDR IN6ADDR_ANY pack_sockaddr_in6);

my ($port, $folder) = @ARGV;
$SIG{CHLD} = 'IGNORE';
socket(my $listener, AF_INET6, SOCK_STREAM, 0) or die "socket: $!";
setsockopt($listener, SOL_SOCKET, SO_REUSEADDR, 1) or die "socket: $!";
setsockopt($listener, IPPROTO_IPV6, IPV6_V6ONLY, 0) or die "socket: $!";
bind($listener, pack_sockaddr_in6($port, IN6ADDR_ANY)) or die "bind to port $port: $!";
listen($listener, 64) or die "listen: $!";
while (accept(my $client, $listener)) {
    next if fork();
    my $request = <$client> // '';
    while (defined(my $line = <$client>)) { last if $line =~ /^\r?\n$/ }
    my ($name) = $request =~ m{^GET /([\w.]*) };
    $name = 'index.html' if defined $name && $name eq '';
    if (defined $name && $name !~ /^\./ && open(my $file, '<:raw', "$folder/$name")) {
        print $client "HTTP/1.0 200 OK\r\nContent-Length: " . (-s $file) . "\r\n\r\n";
        while (read($file, my $bytes, 1 << 16)) { print $client $bytes or last }
    } else {
        print $client "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    }
    exit 0;
}
