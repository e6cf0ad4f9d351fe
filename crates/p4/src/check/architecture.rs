//! The pipeline: which parser and controls stand where, and what they share.

use std::rc::Rc;

use crate::ast::{ControlDecl, Expr, ExprKind, ParserDecl, TypeExpr, TypeKind};
use crate::diagnostic::Checked;
use crate::ir::FieldKind;
use crate::source::Span;

use super::block::Given;
use super::types::{Entity, Ty, standard_fields};
use super::{Checker, Where};

const PARTS: [&str; 6] =
    ["the parser", "verifying checksums", "the ingress", "the egress", "computing checksums", "the deparser"];

impl Checker<'_> {
    /// `V1Switch(...) main;`, and all that it names.
    pub(super) fn architecture(&mut self) {
        let Some(main) = self.main.take() else {
            self.sink.error(Span::default(), "the program has no `main`").label("in this program").help(
                "end it with `V1Switch(Parser(), Verify(), Ingress(), Egress(), Compute(), Deparser()) main;`",
            );
            return;
        };
        let of: Option<&[TypeExpr]> = match &main.ty.kind {
            TypeKind::Named(name) if &*name.text == "V1Switch" => Some(&[]),
            TypeKind::Generic(name, of) if &*name.text == "V1Switch" => Some(of),
            _ => None,
        };
        let Some(of) = of else {
            self.sink.refuse(main.ty.span, "an architecture other than `V1Switch` is");
            return;
        };
        if self.expect_arguments(&main.arguments, PARTS.len(), main.ty.span).is_err() {
            return;
        }
        let parser = self.parser_named(&main.arguments[0]);
        let controls: Vec<_> =
            (1..PARTS.len()).map(|at| self.control_named(&main.arguments[at], PARTS[at])).collect();
        let Some(Entity::Type(standard_ty)) = self.find("standard_metadata_t").cloned() else {
            self.sink
                .error(main.ty.span, "there is no type `standard_metadata_t`")
                .help("`#include <v1model.p4>` declares it");
            return;
        };
        let (Ok(parser), [Ok(verify), Ok(ingress), Ok(egress), Ok(compute), Ok(deparser)]) =
            (parser, &controls[..])
        else {
            return;
        };
        let [_, headers, metadata, _] = &parser.parameters[..] else {
            let message = format!(
                "the parser `{}` has 4 parameters: packet, headers, metadata, standard metadata",
                parser.name.text
            );
            self.sink.error(parser.name.span, message);
            return;
        };
        let (headers_ty, metadata_ty) = (self.ty(&headers.ty), self.ty(&metadata.ty));
        self.type_arguments(of, main.ty.span, [&headers_ty, &metadata_ty]);
        let headers = self.place(&headers_ty, "hdr", FieldKind::Metadata, headers.name.span);
        let metadata = self.place(&metadata_ty, "meta", FieldKind::Metadata, metadata.name.span);
        let standard = self.place(&standard_ty, "standard_metadata", FieldKind::Standard, main.ty.span);
        self.program.standard = standard_fields(&standard);
        self.standard = Some(Rc::clone(&standard));
        let [headers, metadata, standard] = [headers, metadata, standard].map(Given::Place);

        let whole = [headers.clone(), metadata.clone(), standard.clone()];
        let of_parser = [Given::PacketIn, headers.clone(), metadata.clone(), standard];
        self.program.parser = self.parser_block(&parser, &of_parser);
        let of_checksums = [headers.clone(), metadata];
        self.program.verify_checksum =
            self.control_block(verify, "verify_checksum", Where::Checksum, &of_checksums);
        self.program.ingress = self.control_block(ingress, "ingress", Where::Control, &whole);
        self.program.egress = self.control_block(egress, "egress", Where::Control, &whole);
        self.program.compute_checksum =
            self.control_block(compute, "compute_checksum", Where::Checksum, &of_checksums);
        self.program.deparser =
            self.control_block(deparser, "deparser", Where::Deparser, &[Given::PacketOut, headers]);
    }

    /// `V1Switch<H, M>`: the types of headers and metadata, which are those of the parser.
    fn type_arguments(&mut self, of: &[TypeExpr], span: Span, expected: [&Ty; 2]) {
        if of.is_empty() {
            return;
        }
        if of.len() != expected.len() {
            let message = format!("`V1Switch` has {} type arguments, not {}", expected.len(), of.len());
            self.sink.error(span, message).help("write `V1Switch<HEADERS, METADATA>(...)`");
            return;
        }
        for (given, expected) in of.iter().zip(expected) {
            // `_` is whatever it has to be.
            if matches!(&given.kind, TypeKind::Named(name) if &*name.text == "_") {
                continue;
            }
            let found = self.ty(given);
            if !found.is(expected) {
                let error = self.sink.error(given.span, format!("expected {expected}, found {found}"));
                error.label("the parser's parameters say what the others get");
            }
        }
    }

    /// `Name()`
    fn instance_named<'e>(&mut self, expr: &'e Expr, what: &str) -> Checked<&'e crate::ast::Name> {
        if let ExprKind::Call(callee, _, arguments) = &expr.kind
            && let ExprKind::Name(name) = &callee.kind
            && arguments.is_empty()
        {
            return Ok(name);
        }
        self.sink.error(expr.span, format!("{what} is given by its name")).help("write `Name()`").refused()
    }

    fn parser_named(&mut self, expr: &Expr) -> Checked<Rc<ParserDecl>> {
        let name = self.instance_named(expr, PARTS[0])?.clone();
        match self.lookup(&name, "parser")? {
            Entity::Parser(parser) => Ok(parser),
            _ => self.sink.error(name.span, format!("`{}` is not a parser", name.text)).refused(),
        }
    }

    fn control_named(&mut self, expr: &Expr, what: &str) -> Checked<Rc<ControlDecl>> {
        let name = self.instance_named(expr, what)?.clone();
        match self.lookup(&name, "control")? {
            Entity::Control(control) => Ok(control),
            _ => self.sink.error(name.span, format!("`{}` is not a control", name.text)).refused(),
        }
    }
}
